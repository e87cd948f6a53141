//! A minimal reader for the tokenizer fields of a GGUF file. Malformed files are not detected.

use formwork_vocab::tokenizer::GgufTokenizer;

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk::<N>().expect("the file is whole");
        self.0 = rest;
        *head
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> usize {
        u64::from_le_bytes(self.take()) as usize
    }

    fn string(&mut self) -> String {
        let len = self.u64();
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        String::from_utf8(head.to_vec()).expect("strings are UTF-8")
    }

    fn value(&mut self, kind: u32) -> Value {
        match kind {
            0 | 1 | 7 => Value::Number(u64::from(self.take::<1>()[0])),
            2 | 3 => Value::Number(u64::from(u16::from_le_bytes(self.take()))),
            4 | 5 => Value::Number(u64::from(self.u32())),
            6 => Value::Float(f32::from_le_bytes(self.take())),
            8 => Value::String(self.string()),
            9 => {
                let kind = self.u32();
                let len = self.u64();
                Value::List((0..len).map(|_| self.value(kind)).collect())
            }
            _ => Value::Number(self.u64() as u64),
        }
    }
}

enum Value {
    Number(u64),
    Float(f32),
    String(String),
    List(Vec<Self>),
}

impl Value {
    fn number(self) -> u64 {
        if let Self::Number(number) = self { number } else { panic!("not a number") }
    }

    fn string(self) -> String {
        if let Self::String(string) = self { string } else { panic!("not a string") }
    }

    fn list<T>(self, item: impl Fn(Self) -> T) -> Vec<T> {
        if let Self::List(list) = self { list.into_iter().map(item).collect() } else { panic!("not a list") }
    }
}

/// Returns the tokenizer fields of the GGUF file with the content `bytes`.
pub(crate) fn read(bytes: &[u8]) -> GgufTokenizer {
    let mut cursor = Cursor(bytes);
    assert_eq!(&cursor.take(), b"GGUF");
    let (_version, _tensors, entries) = (cursor.u32(), cursor.u64(), cursor.u64());
    let mut fields = GgufTokenizer::default();
    for _ in 0..entries {
        let key = cursor.string();
        let kind = cursor.u32();
        let value = cursor.value(kind);
        let id = |value: Value| Some(value.number() as u32);
        match key.strip_prefix("tokenizer.ggml.").unwrap_or(&key) {
            "general.name" => fields.name = Some(value.string()),
            "model" => fields.model = value.string(),
            "pre" => fields.pre = Some(value.string()),
            "tokens" => fields.tokens = value.list(Value::string),
            "merges" => fields.merges = value.list(Value::string),
            "token_type" => fields.token_type = value.list(|value| value.number() as i32),
            "scores" => {
                fields.scores =
                    value.list(
                        |value| if let Value::Float(score) = value { score } else { panic!("not a float") },
                    );
            }
            "bos_token_id" => fields.bos = id(value),
            "eos_token_id" => fields.eos = id(value),
            "eot_token_id" => fields.eot = id(value),
            "eom_token_id" => fields.eom = id(value),
            "add_bos_token" => fields.add_bos = Some(value.number() != 0),
            "add_space_prefix" => fields.add_space_prefix = Some(value.number() != 0),
            _ => {}
        }
    }
    fields
}
