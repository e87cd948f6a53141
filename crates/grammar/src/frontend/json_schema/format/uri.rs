//! URIs, IRIs, references to them, and URI templates.

use super::Abnf;
use super::name::ipv6;
use crate::regular::ExprId;

/// The characters `ucschar` of an IRI (RFC 3987, section 2.2), in the notation of a class.
const UCSCHAR: &str = r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}\u{30000}-\u{3FFFD}\u{40000}-\u{4FFFD}\u{50000}-\u{5FFFD}\u{60000}-\u{6FFFD}\u{70000}-\u{7FFFD}\u{80000}-\u{8FFFD}\u{90000}-\u{9FFFD}\u{A0000}-\u{AFFFD}\u{B0000}-\u{BFFFD}\u{C0000}-\u{CFFFD}\u{D0000}-\u{DFFFD}\u{E1000}-\u{EFFFD}";

/// The private-use characters `iprivate`, in the notation of a class. The query of an IRI may
/// contain them, too.
const IPRIVATE: &str = r"\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}";

const PERCENT: &str = "%[0-9A-Fa-f]{2}";

/// The set of characters that need no percent-encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repertoire {
    /// The characters of a URI (RFC 3986, appendix A).
    Ascii,
    /// The characters of an IRI (RFC 3987, section 2.2).
    Unicode,
}

impl Repertoire {
    /// Returns a pattern for one character that is `unreserved`, in `sub-delims` or in `more`.
    /// `more` is in the notation of a class.
    fn class(self, more: &str) -> String {
        let beyond = if self == Self::Unicode { UCSCHAR } else { "" };
        format!(r"[0-9A-Za-z\-._~!$&'()*+,;={beyond}{more}]")
    }

    /// Returns a pattern for one character that [`Repertoire::class`] accepts, or one
    /// percent-encoded octet.
    fn chars(self, more: &str) -> String {
        format!("(?:{}|{PERCENT})", self.class(more))
    }
}

/// Returns the language of `URI`, which has a scheme.
pub(super) fn absolute(rules: &mut Abnf<'_>, repertoire: Repertoire) -> ExprId {
    let scheme = rules.pattern(r"[A-Za-z][0-9A-Za-z+.\-]*:");
    let rest = parts(rules, repertoire, &repertoire.chars(":@"));
    rules.all([scheme, rest])
}

/// Returns the language of `URI-reference`. Without a scheme, the first segment has no colon.
pub(super) fn reference(rules: &mut Abnf<'_>, repertoire: Repertoire) -> ExprId {
    let absolute = absolute(rules, repertoire);
    let relative = parts(rules, repertoire, &repertoire.chars("@"));
    rules.any([absolute, relative])
}

/// Returns the language of the part of a URI after its scheme. `first` is a pattern for one
/// character of the first segment of a path without a leading slash.
fn parts(rules: &mut Abnf<'_>, repertoire: Repertoire, first: &str) -> ExprId {
    let path_char = repertoire.chars(":@");
    let private = if repertoire == Repertoire::Unicode { IPRIVATE } else { "" };
    let (start, authority) = (rules.text("//"), authority(rules, repertoire));
    let segments = rules.pattern(&format!("(?:/{path_char}*)*"));
    let with_authority = rules.all([start, authority, segments]);
    let without =
        rules.pattern(&format!("(?:/(?:{path_char}+(?:/{path_char}*)*)?|{first}+(?:/{path_char}*)*)?"));
    let path = rules.any([with_authority, without]);
    let query = repertoire.chars(&format!(":@/?{private}"));
    let end = rules.pattern(&format!(r"(?:\?{query}*)?(?:#{}*)?", repertoire.chars(":@/?")));
    rules.all([path, end])
}

/// Returns the language of `authority`: user, host and port.
fn authority(rules: &mut Abnf<'_>, repertoire: Repertoire) -> ExprId {
    let user = rules.pattern(&format!("(?:{}*@)?", repertoire.chars(":")));
    // IPv4 addresses need no case of their own, because their characters form a name.
    let name = rules.pattern(&format!("{}*", repertoire.chars("")));
    let ipv6 = ipv6(rules);
    let future = rules.pattern(&format!(r"[Vv][0-9A-Fa-f]+\.{}+", Repertoire::Ascii.class(":")));
    let literal = rules.any([ipv6, future]);
    let (open, close) = (rules.text("["), rules.text("]"));
    let literal = rules.all([open, literal, close]);
    let host = rules.any([name, literal]);
    let port = rules.pattern("(?::[0-9]*)?");
    rules.all([user, host, port])
}

/// Returns the language of URI templates (RFC 6570, section 2). Erratum 6937 permits a literal
/// apostrophe.
pub(super) fn template(rules: &mut Abnf<'_>) -> ExprId {
    let literal = format!(r"(?:[!#$&'(-;=?-\[\]_a-z~{UCSCHAR}{IPRIVATE}]|{PERCENT})");
    let name = format!(r"(?:[0-9A-Za-z_]|{PERCENT})(?:\.?(?:[0-9A-Za-z_]|{PERCENT}))*");
    let variable = format!(r"{name}(?::[1-9][0-9]{{0,3}}|\*)?");
    rules.pattern(&format!(r"(?:{literal}|\{{[+#./;?&]?{variable}(?:,{variable})*\}})*"))
}
