//! Mailbox addresses.

use super::name::{ascii_name, international_name, ipv4, ipv6_in_mail};
use super::{Abnf, Draft};
use crate::regular::{ExprId, Expressions};

/// Maximum length of the local part, in octets (RFC 5321, section 4.5.3.1.1).
const LOCAL_PART: usize = 64;

/// Returns the language of `Mailbox` (RFC 5321, section 4.1.2), with at most 254 octets (section
/// 4.5.3.1.3).
pub(super) fn email(rules: &mut Abnf<'_>, draft: Draft) -> ExprId {
    let local = local_part(rules, "");
    let length = rules.times(Expressions::ANY, 1, Some(LOCAL_PART as u32));
    let local = rules.both(local, length);
    // The longest local part and the `@` leave 189 octets for the domain. 11 blocks are 176 octets.
    let domain = ascii_name(rules, draft, 11);
    mailbox(rules, local, domain)
}

/// Returns the language of `Mailbox` with the extensions of RFC 6531, section 3.3.
pub(super) fn idn_email(rules: &mut Abnf<'_>) -> ExprId {
    let local = local_part(rules, r"\u0080-\u{10FFFF}");
    let length = octets(rules, LOCAL_PART);
    let local = rules.both(local, length);
    let ascii = ascii_name(rules, Draft::D2020, 11);
    let international = international_name(rules, r"\u0300-\u033F\u0342\u0346-\u034E\u0350-\u036F");
    let domain = rules.any([ascii, international]);
    mailbox(rules, local, domain)
}

/// Returns the language of `local`, an `@`, and `domain` or an address in brackets.
fn mailbox(rules: &mut Abnf<'_>, local: ExprId, domain: ExprId) -> ExprId {
    let (ipv4, ipv6) = (ipv4(rules), ipv6_in_mail(rules));
    let tag = rules.pattern("[Ii][Pp][Vv]6:");
    let ipv6 = rules.all([tag, ipv6]);
    let literal = rules.any([ipv4, ipv6]);
    let (open, close) = (rules.text("["), rules.text("]"));
    let literal = rules.all([open, literal, close]);
    let host = rules.any([domain, literal]);
    let at = rules.text("@");
    rules.all([local, at, host])
}

/// Returns the language of `Local-part`: atoms separated by dots, or a quoted string. `more` adds
/// characters, in the notation of a regular expression's class.
fn local_part(rules: &mut Abnf<'_>, more: &str) -> ExprId {
    let atom = format!(r"[0-9A-Za-z!#$%&'*+\-/=?^_`{{|}}~{more}]+");
    // Any printable character may be quoted and a string may contain `<`, but some validators
    // reject both. So this pattern omits both.
    let content = format!(r#"(?:[ !#-;=-\[\]-~{more}]|\\["\\])*"#);
    rules.pattern(&format!(r#"{atom}(?:\.{atom})*|"{content}""#))
}

/// Returns the language of all texts of at most `most` octets in UTF-8.
fn octets(rules: &mut Abnf<'_>, most: usize) -> ExprId {
    let widths = [r"[\u0000-\u007F]", r"[\u0080-\u07FF]", r"[\u0800-\uFFFF]", r"[\u{10000}-\u{10FFFF}]"];
    let widths = widths.map(|class| rules.pattern(class));
    let mut texts = vec![Expressions::EMPTY];
    for octets in 1..=most {
        let mut forms = vec![Expressions::EMPTY];
        for (&class, width) in widths.iter().zip(1..=octets) {
            forms.push(rules.all([class, texts[octets - width]]));
        }
        texts.push(rules.any(forms));
    }
    texts[most]
}
