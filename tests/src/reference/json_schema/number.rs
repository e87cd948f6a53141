//! The text of numbers, and their value.

/// Whether a text is a number as JSON has them.
pub(super) fn json_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(m, e)| (m, Some(e)));
    let (integer, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(i, f)| (i, Some(f)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits(integer)
        && (integer == "0" || !integer.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// 10¹⁸: numbers have at most as many digits before the point, and after it.
pub(super) const SCALE: i128 = 1_000_000_000_000_000_000;

/// A number without exponent, times [`SCALE`].
pub(super) fn scaled(text: &str) -> i128 {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let value = format!("{integer}{fraction:0<18}").parse().unwrap_or(i128::MAX / 2);
    if negative { -value } else { value }
}
