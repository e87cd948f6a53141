//! The printable alphabet in which byte-level vocabularies spell raw bytes.
//!
//! Byte-level BPE stores tokens as text. Bytes that are printable in Latin-1 stand for themselves.
//! The other 68 bytes are mapped, in order, to the code points from U+0100 on. A space is thus
//! spelt `Ġ` (U+0120), and a line feed `Ċ` (U+010A).

/// First code point after the alphabet.
const END: usize = 0x100 + 68;

/// For each code point below [`END`], the byte that it stands for. `None` if the code point is not
/// in the alphabet.
static BYTES: [Option<u8>; END] = bytes();

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

const fn bytes() -> [Option<u8>; END] {
    let mut table = [None; END];
    let mut moved = 0x100;
    let mut byte = 0_u8;
    loop {
        if is_printable(byte) {
            table[byte as usize] = Some(byte);
        } else {
            table[moved] = Some(byte);
            moved += 1;
        }
        if byte == u8::MAX {
            return table;
        }
        byte += 1;
    }
}

/// Appends the bytes that `spelling` stands for. If a character is outside the alphabet, appends
/// the UTF-8 bytes of `spelling` instead.
pub(super) fn decode(spelling: &str, bytes: &mut Vec<u8>) {
    let from = bytes.len();
    for c in spelling.chars() {
        if let Some(&Some(byte)) = BYTES.get(c as usize) {
            bytes.push(byte);
        } else {
            bytes.truncate(from);
            bytes.extend_from_slice(spelling.as_bytes());
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(spelling: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        decode(spelling, &mut bytes);
        bytes
    }

    #[test]
    fn every_byte_has_one_spelling() {
        let mut spelt: Vec<u8> = BYTES.iter().flatten().copied().collect();
        spelt.sort_unstable();
        assert_eq!(spelt, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn known_spellings() {
        assert_eq!(decoded("Ġthe"), b" the");
        assert_eq!(decoded("ĊĊ"), b"\n\n");
        assert_eq!(decoded("Ã©"), "é".as_bytes());
        assert_eq!(decoded("ł"), [0xa0]);
        assert_eq!(decoded("Ń"), [0xad]);
        assert_eq!(decoded("a b"), b"a b", "a raw space is no letter of the alphabet");
        assert_eq!(decoded("<｜end｜>"), "<｜end｜>".as_bytes());
    }
}
