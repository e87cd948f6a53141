//! Tests of the types with grids: every entry of their tables, and blocks of any bytes.

use super::*;

/// Blocks with every index of the types with grids, and their values plus 128. See `generate.py`
/// next to the file.
const GRIDS: &[u8] = include_bytes!("../../tests/dequantized/grids.safetensors");

#[test]
fn all_entries_of_grids_are_those_of_the_reference() {
    let file: HashMap<String, Tensor> = load_buffer(GRIDS, &Device::Cpu).unwrap();
    let mut elements = 0;
    for (name, tensor) in &file {
        let Some(name) = name.strip_suffix(".blocks") else { continue };
        let (_, encoding) = NAMES.iter().find(|(known, _)| name.split('.').nth(1) == Some(known)).unwrap();
        let blocks: Vec<u8> = tensor.to_vec1().unwrap();
        let values: Vec<u8> = file[&format!("{name}.values")].to_vec1().unwrap();
        let mut given = vec![f32::NAN; values.len()];
        dequantize(*encoding, &blocks, &mut given);
        let expected: Vec<f32> = values.iter().map(|&value| f32::from(value) - 128.0).collect();
        assert_eq!(given, expected, "{encoding:?}");
        elements += values.len();
    }
    assert_eq!(50_176, elements);
}

/// Scales of hostile blocks may be infinite or NaN, and all bits are valid codes.
#[test]
fn blocks_of_any_bytes_are_expanded_and_multiplied() {
    for sample in Sample::all().iter().filter(|sample| !sample.is_float()) {
        let mut blocks = Vec::new();
        for seed in 0..64 {
            let row = noise(sample.blocks.len(), seed);
            blocks.extend(row.iter().map(|x| (x * 1e6) as i32 as u8));
        }
        let packed = PackedSample::new(Packing::plain(sample.encoding), 64, sample.blocks.len(), blocks);
        let tokens = Tokens::new(9, packed.columns);
        let expected = packed.defined(&tokens.all(false));
        for tier in Tier::available() {
            for (given, expected) in packed.products(tier, &tokens.all(false)).iter().zip(&expected) {
                let are_nan = f32::from_bits(*given).is_nan() && f32::from_bits(*expected).is_nan();
                assert!(given == expected || are_nan, "{:?}, {tier:?}", sample.encoding);
            }
        }
        let mut values = vec![0.0; packed.columns];
        (0..64).for_each(|row| packed.view().dequantize(row, &mut values));
    }
}
