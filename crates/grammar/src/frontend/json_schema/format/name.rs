//! Host names and IP addresses.

use super::{Abnf, Draft};
use crate::regular::{ExprId, Expressions};

/// Maximum length of a label of a host name, in octets (RFC 1035, section 2.3.4).
const LABEL: u32 = 63;

/// Number of characters in a block. The length of a host name is counted in blocks: each label with
/// its dot is rounded up to full blocks. An exact count would need a state for each pair of a
/// position in the label and a length of the name, about 16,000 states.
const BLOCK: u32 = 16;

/// Returns the language of IPv4 addresses (RFC 2673, section 3.2). `dec-octet` has no leading zeros
/// (RFC 3986, section 3.2.2).
pub(super) fn ipv4(rules: &mut Abnf<'_>) -> ExprId {
    let octet = r"(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])";
    rules.pattern(&format!(r"(?:{octet}\.){{3}}{octet}"))
}

/// Returns the language of IPv6 addresses (RFC 4291, section 2.2).
pub(super) fn ipv6(rules: &mut Abnf<'_>) -> ExprId {
    ipv6_beside_gap(rules, 7)
}

/// Returns the language of IPv6 addresses in mailboxes (RFC 5321, section 4.1.3), where `::` stands
/// for at least two groups.
pub(super) fn ipv6_in_mail(rules: &mut Abnf<'_>) -> ExprId {
    ipv6_beside_gap(rules, 6)
}

/// Returns the language of IPv6 addresses that have eight groups, or at most `most` groups and a
/// `::`. An IPv4 address may replace the last two groups.
fn ipv6_beside_gap(rules: &mut Abnf<'_>, most: u32) -> ExprId {
    let group = rules.pattern("[0-9A-Fa-f]{1,4}");
    let (colon, gap, ipv4) = (rules.text(":"), rules.text("::"), ipv4(rules));
    let (before, after) = (rules.all([group, colon]), rules.all([colon, group]));
    let mut forms = Vec::new();
    for (count, last) in [(7, group), (6, ipv4)] {
        let groups = rules.times(before, count, Some(count));
        forms.push(rules.all([groups, last]));
    }
    for left in 0..=most {
        let mut right = vec![Expressions::EMPTY];
        for (width, last) in [(1, group), (2, ipv4)] {
            if let Some(others) = (most - left).checked_sub(width) {
                let others = rules.times(before, 0, Some(others));
                right.push(rules.all([others, last]));
            }
        }
        let right = rules.any(right);
        let left = match left.checked_sub(1) {
            None => Expressions::EMPTY,
            Some(others) => {
                let others = rules.times(after, others, Some(others));
                rules.all([group, others])
            }
        };
        forms.push(rules.all([left, gap, right]));
    }
    rules.any(forms)
}

/// Returns the language of host names of at most 240 characters, counted in blocks (RFC 1123,
/// section 2.1). From draft 7 on, RFC 5890, section 2.3.1 applies, too.
pub(super) fn hostname(rules: &mut Abnf<'_>, draft: Draft) -> ExprId {
    ascii_name(rules, draft, 15)
}

/// Returns the language of host names of ASCII letters, digits and hyphens. The labels of a name
/// take at most `blocks` blocks together.
pub(super) fn ascii_name(rules: &mut Abnf<'_>, draft: Draft, blocks: usize) -> ExprId {
    let (label, dot) = (label(rules, LABEL, draft), rules.text("."));
    let next = rules.all([dot, label]);
    let more = rules.many(next);
    let names = rules.all([label, more]);
    let fitting = within(rules, blocks);
    rules.both(names, fitting)
}

/// Returns the language of texts whose labels, of any characters, take at most `blocks` blocks
/// together.
fn within(rules: &mut Abnf<'_>, blocks: usize) -> ExprId {
    let (other, dot) = (rules.pattern("[^.]"), rules.text("."));
    let (full, begun) = (rules.times(other, BLOCK, Some(BLOCK)), rules.times(other, 0, Some(BLOCK - 1)));
    let mut fitting = Expressions::NOTHING;
    for _ in 0..blocks {
        let rest = rules.all([dot, fitting]);
        let rest = rules.optional(rest);
        let forms = [rules.all([begun, rest]), rules.all([full, fitting])];
        fitting = rules.any(forms);
    }
    fitting
}

/// Returns the language of labels of at most `longest` ASCII letters, digits and hyphens, without a
/// hyphen at either end.
fn label(rules: &mut Abnf<'_>, longest: u32, draft: Draft) -> ExprId {
    let label = rules.pattern(&format!("[0-9A-Za-z](?:[0-9A-Za-z-]{{0,{}}}[0-9A-Za-z])?", longest - 2));
    if draft < Draft::D7 {
        return label;
    }
    let reserved = rules.pattern("..--.*");
    rules.except(label, reserved)
}

/// Returns the language of internationalized host names (RFC 5890, section 2.3.2.3). Labels outside
/// ASCII have only the letters in the constants below.
pub(super) fn idn_hostname(rules: &mut Abnf<'_>) -> ExprId {
    let ascii = hostname(rules, Draft::D2020);
    let international = international_name(rules, "");
    rules.any([ascii, international])
}

/// Letters and digits that are PVALID (RFC 5892), in the notation of a class. No two of them
/// compose into another character. The scripts are Latin, Greek, Cyrillic, Armenian, Devanagari,
/// Thai, Georgian, kana, bopomofo, Han and Hangul.
const LEFT_TO_RIGHT: &str = r"\u00DF-\u00F6\u00F8-\u00FF\u0101\u0103\u0105\u0107\u0109\u010B\u010D\u010F\u0111\u0113\u0115\u0117\u0119\u011B\u011D\u011F\u0121\u0123\u0125\u0127\u0129\u012B\u012D\u012F\u0131\u0135\u0137\u0138\u013A\u013C\u013E\u0142\u0144\u0146\u0148\u014B\u014D\u014F\u0151\u0153\u0155\u0157\u0159\u015B\u015D\u015F\u0161\u0163\u0165\u0167\u0169\u016B\u016D\u016F\u0171\u0173\u0175\u0177\u017A\u017C\u017E\u03AC-\u03CE\u0430-\u045F\u0561-\u0586\u0904-\u0939\u0966-\u096F\u0E01-\u0E30\u0E32\u0E40-\u0E46\u0E50-\u0E59\u10D0-\u10F0\u3005-\u3007\u3041-\u3096\u30A1-\u30FA\u30FC\u3105-\u312D\u3400-\u4DB5\u4E00-\u9FA5\uAC00-\uD7A3";

/// Signs of Devanagari and Thai, in the notation of a class. No label begins with a sign.
const SIGNS: &str = r"\u0901-\u0903\u093E-\u094D\u0E31\u0E34-\u0E3A\u0E47-\u0E4E";

/// Hebrew and Arabic letters, in the notation of a class.
const RIGHT_TO_LEFT: &str = r"\u05D0-\u05EA\u0621-\u063A\u0641-\u064A\u0671-\u0674\u0679-\u06D3";

/// Returns the language of host names of at most four labels. ASCII labels take at most one block.
/// Four labels of 62 octets and their dots have 251 octets, and the limit is 253.
///
/// `marks` adds characters that may stand inside left-to-right labels, in the notation of a class.
pub(super) fn international_name(rules: &mut Abnf<'_>, marks: &str) -> ExprId {
    let ascii = label(rules, BLOCK - 1, Draft::D2020);
    let left_to_right = unicode_label(rules, LEFT_TO_RIGHT, "a-z0-9", &format!("a-z0-9{SIGNS}{marks}"));
    let label = rules.any([ascii, left_to_right]);
    let left_to_right = name_of(rules, label, label);

    // If a label runs from right to left, the others must begin with a letter (RFC 5893, section 2).
    let right_to_left = unicode_label(rules, RIGHT_TO_LEFT, "", "0-9");
    let beside = rules.pattern("[A-Za-z].*");
    let beside = rules.both(ascii, beside);
    let others = rules.any([right_to_left, beside]);
    let right_to_left = name_of(rules, right_to_left, others);
    rules.any([left_to_right, right_to_left])
}

/// Returns the language of names whose first label is in `first`, with up to three more in
/// `others`.
fn name_of(rules: &mut Abnf<'_>, first: ExprId, others: ExprId) -> ExprId {
    // RFC 3490, section 3.1 defines the dots.
    let dot = rules.pattern(r"[.\u3002\uFF0E\uFF61]");
    let next = rules.all([dot, others]);
    let more = rules.times(next, 0, Some(3));
    rules.all([first, more])
}

/// Returns the language of labels with at least one character outside ASCII. All sets are in the
/// notation of a class.
///
/// The first character is from `letters` or `first`. The other characters are from `letters` or
/// `inside`, or are hyphens. The last character is not a hyphen.
///
/// In punycode, a character outside ASCII takes at most 8 digits: the deltas are below 2²⁷, and
/// each digit covers a factor of at least 10 (RFC 3492, section 3.3). With `xn--`, ten ASCII
/// characters and the hyphen after them, five such characters take 55 octets. Seven such characters
/// without ASCII characters take 60 octets.
fn unicode_label(rules: &mut Abnf<'_>, letters: &str, first: &str, inside: &str) -> ExprId {
    let label = rules.pattern(&format!("[{letters}{first}](?:[{letters}{inside}-]*[{letters}{inside}])?"));
    let reserved = rules.pattern("[^]{2}--[^]*");
    let label = rules.except(label, reserved);

    let (plain, other) = (rules.pattern(r"[\u0000-\u007F]*"), rules.pattern(r"[^\u0000-\u007F]"));
    let next = rules.all([other, plain]);
    let mut fitting = Vec::new();
    for (most, longest) in [(7, 7), (5, BLOCK - 1)] {
        let others = rules.times(next, 1, Some(most));
        let counted = rules.all([plain, others]);
        let length = rules.times(Expressions::ANY, 1, Some(longest));
        fitting.push(rules.both(counted, length));
    }
    let fitting = rules.any(fitting);
    rules.both(label, fitting)
}
