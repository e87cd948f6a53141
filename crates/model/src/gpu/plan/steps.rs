//! Lists of steps.

use formwork_gpu::product::{Batch, Product};
use formwork_gpu::{Gpu, Step};

/// Properties of a pass that determine its steps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::gpu) struct Shape {
    pub(in crate::gpu) tokens: usize,
    /// Number of sequences.
    pub(in crate::gpu) segments: usize,
    /// Number of items of each kind.
    pub(in crate::gpu) items: Vec<usize>,
    /// True if the tokens are of a prompt, which has kernels for many tokens.
    pub(in crate::gpu) is_tiled: bool,
    /// True if activations are not rounded.
    pub(in crate::gpu) is_precise: bool,
}

/// Steps of a pass, while they are listed.
pub(super) struct Steps<'a> {
    gpu: &'a Gpu,
    pub(super) shape: &'a Shape,
    pub(super) list: Vec<Step>,
    /// Index of the first step of each group, and what the group does.
    groups: Vec<(usize, &'static str)>,
    /// Indices of the steps before which the residual stream is complete.
    pub(super) cuts: Vec<usize>,
}

impl<'a> Steps<'a> {
    pub(super) const fn new(gpu: &'a Gpu, shape: &'a Shape) -> Self {
        Self { gpu, shape, list: Vec::new(), groups: Vec::new(), cuts: Vec::new() }
    }

    /// Returns the number of tokens.
    pub(super) const fn tokens(&self) -> u32 {
        self.shape.tokens as u32
    }

    /// Begins a group of steps.
    pub(super) fn begin(&mut self, group: &'static str) -> &mut Self {
        self.groups.push((self.list.len(), group));
        self
    }

    pub(super) fn push(&mut self, step: Step) {
        self.list.push(step);
    }

    pub(super) fn products(&mut self, products: &Products) {
        let batch = Batch { tokens: self.tokens(), ..Batch::default() };
        let Shape { is_precise, is_tiled, .. } = *self.shape;
        if is_precise {
            products.floats.steps(self.gpu, batch, &mut self.list);
        } else if is_tiled {
            products.bytes.prompt_steps(self.gpu, batch, &mut self.list);
        } else {
            products.bytes.steps(self.gpu, batch, &mut self.list);
        }
    }

    /// Returns the steps by what they do.
    pub(super) fn by_group(self) -> Vec<(&'static str, Vec<Step>)> {
        let mut all: Vec<(&'static str, Vec<Step>)> = Vec::new();
        let ends = self.groups.iter().skip(1).map(|(first, _)| *first).chain([self.list.len()]);
        for ((first, name), end) in self.groups.iter().zip(ends) {
            let steps = self.list[*first..end].iter().cloned();
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.extend(steps),
                None => all.push((name, steps.collect())),
            }
        }
        all
    }

    /// Returns the steps in sections, which end where the residual stream is complete.
    pub(super) fn by_section(self) -> Vec<Vec<Step>> {
        let (mut list, mut sections) = (self.list.into_iter(), Vec::new());
        let mut last = 0;
        for cut in self.cuts {
            sections.push(list.by_ref().take(cut - last).collect());
            last = cut;
        }
        sections.push(list.collect());
        sections
    }
}

/// A product with the two forms of activations.
pub(super) struct Products {
    pub(super) bytes: Product,
    pub(super) floats: Product,
}
