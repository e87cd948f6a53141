//! Division of a model's layers among GPUs and the CPU.

use std::ops::Range;

use formwork_gpu::weights::bytes_of_matrix;

use super::plan::{sum_rows, widest_query};
use super::pool::own_key_len;
use super::states::layer_state_bytes;
use crate::device::GpuLayers;
use crate::spec::{AttentionSpec, KeyValues, MixerSpec, ModelSpec};
use crate::weights::{InputWeights, LayerWeights, Matrix, TextHead, Weights};

/// Memory for the activations and logits of a pass beside the sums of attention, in bytes. The actual
/// amount depends on the model.
const WORK: u64 = 256 << 20;

/// Number of states of a sequence that are counted for a layer.
const STATES: u64 = 4;

/// Places of a model's layers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placement {
    /// Layers of each GPU. The CPU computes those after the last.
    pub(super) layers: Vec<Range<usize>>,
    /// True if the last GPU also has the output head, and the CPU has no layer.
    pub(super) is_whole: bool,
    /// Number of first mixtures of experts that the CPU computes, also in layers of GPUs.
    pub(super) cpu_experts: usize,
}

/// Memory that the parts of a model take on a GPU, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Needs {
    /// Weights of each layer, with its keys, values and states.
    pub(super) layers: Vec<u64>,
    /// The part of these that is a feed-forward block with a mixture of experts.
    pub(super) experts: Vec<u64>,
    pub(super) head: u64,
    /// Activations, logits and copies of states, on each GPU.
    pub(super) work: u64,
}

impl Needs {
    /// Computes the memory for a sequence of `context` tokens. `kv_bytes` is the size of an element of
    /// keys and values.
    pub(super) fn of(
        spec: &ModelSpec,
        weights: &Weights,
        (context, kv_bytes): (usize, usize),
        state_bytes: usize,
    ) -> Self {
        let of = |matrix: &Matrix| bytes_of_matrix(matrix.encoding(), matrix.rows, matrix.columns) as u64;
        let layers = spec.layers.iter().zip(&weights.layers).map(|(shape, layer)| {
            let mut bytes = 0;
            layer.each(&mut |matrix| bytes += of(matrix));
            let keys_values = 2 * own_key_len(shape) * kv_bytes * context;
            bytes + keys_values as u64 + STATES * layer_state_bytes(shape).iter().sum::<u64>()
        });
        let experts = weights.layers.iter().map(|layer| {
            let mut bytes = 0;
            if layer.feed_forward.has_experts() {
                layer.feed_forward.each(&mut |matrix| bytes += of(matrix));
            }
            bytes
        });
        let copies = if spec.has_state() { state_bytes as u64 } else { 0 };
        let sums = 4 * sum_rows(spec, context) * widest_query(spec);
        Self {
            layers: layers.collect(),
            experts: experts.collect(),
            head: of(&weights.head),
            work: WORK + sums as u64 + copies,
        }
    }

    /// Returns the number of mixtures of experts.
    fn mixtures(&self) -> usize {
        self.experts.iter().filter(|bytes| **bytes > 0).count()
    }

    /// Returns the memory without the first `count` mixtures.
    fn without_mixtures(&self, count: usize) -> Self {
        let mut without = self.clone();
        let mixtures = without.layers.iter_mut().zip(&self.experts).filter(|(_, bytes)| **bytes > 0);
        mixtures.take(count).for_each(|(layer, bytes)| *layer -= bytes);
        without
    }
}

/// Places layers on GPUs with `memory` bytes each, where it is known. If `joined` is true for a layer, the
/// next layer is on the same device.
///
/// `cpu_experts` is the number of first mixtures of experts that the CPU computes. Without this number,
/// [`GpuLayers::Auto`] leaves it as many as necessary to have the rest of the model on the GPUs: a token
/// needs only few of the experts, so they take much memory and little time.
pub(super) fn place(
    needs: &Needs,
    memory: &[Option<u64>],
    (wanted, cpu_experts): (GpuLayers, Option<usize>),
    joined: &[bool],
) -> Placement {
    let mixtures = needs.mixtures();
    let without = |cpu_experts| {
        let (layers, is_whole) = place_layers(&needs.without_mixtures(cpu_experts), memory, wanted, joined);
        Placement { layers, is_whole, cpu_experts }
    };
    match cpu_experts {
        Some(count) => without(count.min(mixtures)),
        None if wanted == GpuLayers::Auto => {
            let mut whole = (0..=mixtures).map(without).filter(|placement| placement.is_whole);
            whole.next().unwrap_or_else(|| without(mixtures))
        }
        None => without(0),
    }
}

/// Places layers as [`place`] does. Returns the layers of each GPU, and reports whether the GPUs have the
/// whole model.
fn place_layers(
    needs: &Needs,
    memory: &[Option<u64>],
    wanted: GpuLayers,
    joined: &[bool],
) -> (Vec<Range<usize>>, bool) {
    let count = needs.layers.len();
    // GPUs share the layers in proportion to their memory, or equally if it is not known.
    let known: Option<Vec<u64>> = memory.iter().copied().collect();
    let shares = known.unwrap_or_else(|| vec![1; memory.len()]);
    let all_shares: u64 = shares.iter().sum::<u64>().max(1);
    let limit = match wanted {
        GpuLayers::Count(wanted) if wanted < count => wanted,
        _ => count,
    };
    let total = needs.layers[..limit].iter().sum::<u64>() + if limit == count { needs.head } else { 0 };
    let (mut layers, mut first, mut placed, mut share) = (Vec::new(), 0, 0, 0);
    for (index, memory) in memory.iter().enumerate() {
        let is_last = index + 1 == shares.len();
        share += shares[index];
        let end = (u128::from(total) * u128::from(share) / u128::from(all_shares)) as u64;
        let room = memory.map_or(u64::MAX, |memory| (memory / 10 * 9).saturating_sub(needs.work));
        let (mut next, mut used) = (first, 0);
        while next < limit {
            let need = needs.layers[next];
            let fits = wanted != GpuLayers::Auto || used + need <= room;
            if !fits || (!is_last && placed + need / 2 > end) {
                break;
            }
            (next, used, placed) = (next + 1, used + need, placed + need);
        }
        while next > first && next < count && joined[next - 1] {
            next -= 1;
            (used, placed) = (used - needs.layers[next], placed - needs.layers[next]);
        }
        if is_last && next == count {
            // Without room for the head, the CPU computes the head and at least one layer.
            let has_head = wanted != GpuLayers::Auto || used + needs.head <= room;
            let mut end = count;
            while !has_head && end > first && (end == count || joined[end - 1]) {
                end -= 1;
            }
            layers.push(first..end);
            return (layers, has_head);
        }
        layers.push(first..next);
        first = next;
    }
    (layers, false)
}

/// Reports for each layer whether it and the next one must be on one device: a later layer reads keys
/// and values that it or an earlier one writes.
pub(super) fn joined(spec: &ModelSpec) -> Vec<bool> {
    let mut joined = vec![false; spec.layers.len()];
    for (index, layer) in spec.layers.iter().enumerate() {
        if let MixerSpec::Attention(AttentionSpec { key_values: KeyValues::OfLayer(source), .. }) =
            layer.mixer
        {
            joined[source..index].fill(true);
        }
    }
    joined
}

/// Takes the first `count` layers out of a model. Returns them as a model of their own, which shares
/// the embedding and the output head.
pub(super) fn take_layers(spec: &mut ModelSpec, weights: &mut Weights, count: usize) -> (ModelSpec, Weights) {
    let first = ModelSpec { layers: spec.layers.drain(..count).collect(), ..spec.clone() };
    for layer in &mut spec.layers {
        if let MixerSpec::Attention(AttentionSpec { key_values: KeyValues::OfLayer(source), .. }) =
            &mut layer.mixer
        {
            *source -= count;
        }
    }
    let layers = weights.layers.drain(..count).collect();
    (first, with_layers(weights, layers))
}

/// Returns the weights of a part of a model with these layers, which shares the embedding and the output
/// head.
pub(super) fn with_layers(weights: &Weights, layers: Vec<LayerWeights>) -> Weights {
    Weights {
        embedding: weights.embedding.clone(),
        per_layer_inputs: None,
        layers,
        draft_head: None,
        output_norm: weights.output_norm.clone(),
        input: InputWeights::default(),
        text_head: TextHead::default(),
        head: weights.head.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Returns the end of each GPU's layers.
    fn placed(memory: &[Option<u64>], wanted: GpuLayers) -> (Vec<usize>, bool) {
        let needs = Needs { layers: vec![GIB; 10], experts: vec![0; 10], head: GIB, work: GIB / 4 };
        let Placement { layers, is_whole, .. } = place(&needs, memory, (wanted, None), &[false; 10]);
        (layers.into_iter().map(|layers| layers.end).collect(), is_whole)
    }

    #[test]
    fn what_fits_goes_to_the_gpu() {
        assert_eq!(placed(&[Some(6 * GIB)], GpuLayers::Auto), (vec![5], false));
        assert_eq!(placed(&[Some(20 * GIB)], GpuLayers::Auto), (vec![10], true));
        // The last layer gives way to the head.
        assert_eq!(placed(&[Some(12 * GIB)], GpuLayers::Auto), (vec![9], false));
        assert_eq!(placed(&[Some(GIB)], GpuLayers::Auto), (vec![0], false));
        assert_eq!(placed(&[None], GpuLayers::Auto), (vec![10], true));
    }

    #[test]
    fn a_count_is_taken_at_its_word() {
        assert_eq!(placed(&[Some(6 * GIB)], GpuLayers::Count(3)), (vec![3], false));
        assert_eq!(placed(&[Some(6 * GIB)], GpuLayers::Count(99)), (vec![10], true));
        assert_eq!(placed(&[Some(6 * GIB)], GpuLayers::All), (vec![10], true));
        assert_eq!(placed(&[None], GpuLayers::Count(0)), (vec![0], false));
        assert_eq!(placed(&[None, None], GpuLayers::Count(4)), (vec![2, 4], false));
    }

    #[test]
    fn several_gpus_share_the_layers_by_memory() {
        assert_eq!(placed(&[Some(8 * GIB), Some(16 * GIB)], GpuLayers::All), (vec![4, 10], true));
        assert_eq!(placed(&[None, None], GpuLayers::All), (vec![6, 10], true));
        assert_eq!(placed(&[Some(4 * GIB), Some(4 * GIB)], GpuLayers::Auto), (vec![3, 6], false));
    }

    #[test]
    fn layers_that_share_keys_stay_together() {
        let needs = Needs { layers: vec![GIB; 3], experts: vec![0; 3], head: GIB, work: 0 };
        // There is no room for the head, and the last two layers go together.
        let placement = place(&needs, &[Some(4 * GIB)], (GpuLayers::Auto, None), &[false, true, false]);
        assert_eq!((placement.layers[0].clone(), placement.is_whole), (0..1, false));
        let needs = Needs { layers: vec![GIB; 4], experts: vec![0; 4], head: GIB, work: 0 };
        let joined = [false, true, true, false];
        let placement = place(&needs, &[None], (GpuLayers::Count(3), None), &joined);
        assert_eq!((placement.layers[0].clone(), placement.is_whole), (0..1, false));
    }

    #[test]
    fn experts_give_way_before_layers() {
        // The first layer is dense, as in many models.
        let experts = [&[0], &[4 * GIB; 9][..]].concat();
        let layers = experts.iter().map(|experts| GIB / 2 + experts).collect();
        let needs = Needs { layers, experts, head: GIB, work: 0 };
        let placed = |gib: u64, wanted| {
            let Placement { layers, is_whole, cpu_experts } =
                place(&needs, &[Some(gib * GIB)], wanted, &[false; 10]);
            (layers[0].end, is_whole, cpu_experts)
        };
        assert_eq!(placed(50, (GpuLayers::Auto, None)), (10, true, 0));
        assert_eq!(placed(30, (GpuLayers::Auto, None)), (10, true, 4));
        assert_eq!(placed(8, (GpuLayers::Auto, None)), (10, true, 9));
        // Without any experts, as many layers as fit.
        assert_eq!(placed(4, (GpuLayers::Auto, None)), (7, false, 9));
        assert_eq!(placed(50, (GpuLayers::Auto, Some(3))), (10, true, 3));
        assert_eq!(placed(30, (GpuLayers::All, Some(99))), (10, true, 9));
        assert_eq!(placed(30, (GpuLayers::All, None)), (10, true, 0));
        assert_eq!(placed(30, (GpuLayers::Count(4), Some(2))), (4, false, 2));
    }
}
