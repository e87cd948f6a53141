use crate::error::Kind;

/// Sequential reader of the little-endian fields of a GGUF file.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset of the next unread byte.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Returns the number of unread bytes.
    pub(super) const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads `len` bytes. `what` is the name of the field for the error message.
    pub(super) fn take(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], Kind> {
        if len > self.remaining() as u64 {
            return Err(Kind::Truncated { what, at: self.at, limit: self.bytes.len() });
        }
        let from = self.at;
        self.at += len as usize;
        Ok(&self.bytes[from..self.at])
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Kind> {
        let mut field = [0; N];
        field.copy_from_slice(self.take(N as u64, what)?);
        Ok(field)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, Kind> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, Kind> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads a UTF-8 string that is preceded by its length.
    pub(super) fn string(&mut self, what: &'static str) -> Result<&'a str, Kind> {
        let at = self.at;
        let len = self.u64(what)?;
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| Kind::Utf8 { what, at })
    }

    /// Reads the number of items that follow. Each item takes at least `least` bytes.
    ///
    /// If the rest of the file is too short for this number, returns an error. Callers can
    /// therefore safely allocate memory for the items.
    pub(super) fn count(&mut self, what: &'static str, least: usize) -> Result<usize, Kind> {
        let at = self.at;
        let given = self.u64(what)?;
        let limit = (self.remaining() / least) as u64;
        if given > limit {
            return Err(Kind::Count { what, given, limit, at });
        }
        Ok(given as usize)
    }
}
