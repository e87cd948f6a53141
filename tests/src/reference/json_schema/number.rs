//! Syntax and values of numbers.

/// Reports whether a text is a JSON number.
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

/// Factor of the integers that represent numbers: 10¹⁸. Numbers have at most 18 digits before the
/// point and after it.
pub(super) const SCALE: i128 = 1_000_000_000_000_000_000;

/// Returns the value of a number without exponent, multiplied by [`SCALE`].
pub(super) fn scaled(text: &str) -> i128 {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let value = format!("{integer}{fraction:0<18}").parse().unwrap_or(i128::MAX / 2);
    if negative { -value } else { value }
}

/// Returns the value of a number in scientific notation, multiplied by [`SCALE`].
///
/// An exponent above 19 gives the largest magnitude, `i128::MAX / 2`, and an exponent below -18 the
/// smallest, 1. Returns `None` for other notations: more than one digit before the point, or a zero
/// digit before the point of a nonzero number.
pub(super) fn scientific(mantissa: &str, exponent: &str) -> Option<i128> {
    let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
    let (first, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if first.len() != 1 || (first == "0" && !is_zero) {
        return None;
    }
    if is_zero {
        return Some(0);
    }
    let digits = format!("{first}{fraction}");
    let magnitude = match exponent.parse::<i32>().ok()? {
        exponent if exponent > 19 => i128::MAX / 2,
        exponent if exponent < -18 => 1,
        exponent if exponent < 0 => {
            scaled(&format!("0.{:0>1$}{digits}", "", exponent.unsigned_abs() as usize - 1))
        }
        exponent => {
            let digits = format!("{digits:0<20}");
            let (integer, fraction) = digits.split_at(exponent as usize + 1);
            scaled(&format!("{integer}.{}", fraction.trim_end_matches('0')))
        }
    };
    Some(if negative { -magnitude } else { magnitude })
}
