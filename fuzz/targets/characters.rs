//! A character set, parsed from its text.
#![no_main]

use formwork_fields::Characters;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let Ok(set) = source.parse::<Characters>() else { return };
    assert_eq!(set.to_string().parse().as_ref(), Ok(&set), "{set}");
    assert!(!set.ranges().is_empty());
    for &(low, high) in set.ranges() {
        assert!(low <= high && set.contains(low) && set.contains(high));
    }
    assert!(set.ranges().windows(2).all(|pair| pair[0].1 < pair[1].0), "{set}");
});
