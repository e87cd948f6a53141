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
    /// Places where the host takes over, by the index of the next step.
    ends: Vec<(usize, End)>,
}

/// A place between two steps of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::gpu) enum End {
    /// The residual stream is complete.
    Stream,
    /// The CPU computes the feed-forward block of this layer.
    HostBlock(usize),
}

/// Some steps of a pass, and the place after them.
pub(in crate::gpu) struct Part {
    pub(in crate::gpu) steps: Vec<Step>,
    pub(in crate::gpu) end: End,
}

impl<'a> Steps<'a> {
    pub(super) const fn new(gpu: &'a Gpu, shape: &'a Shape) -> Self {
        Self { gpu, shape, list: Vec::new(), groups: Vec::new(), ends: Vec::new() }
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

    /// Marks the place after the last step.
    pub(super) fn end(&mut self, end: End) {
        self.ends.push((self.list.len(), end));
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

    /// Divides the steps at the marked places for which `is_end` is true. The last part ends with a complete
    /// residual stream.
    pub(super) fn parts(self, is_end: impl Fn(End) -> bool) -> Vec<Part> {
        let (mut list, mut last) = (self.list.into_iter(), 0);
        let ends = self.ends.into_iter().filter(|(_, end)| is_end(*end));
        let mut parts: Vec<Part> = ends
            .map(|(index, end)| {
                let steps = list.by_ref().take(index - last).collect();
                last = index;
                Part { steps, end }
            })
            .collect();
        parts.push(Part { steps: list.collect(), end: End::Stream });
        parts
    }
}

/// A product with the two forms of activations.
pub(super) struct Products {
    pub(super) bytes: Product,
    pub(super) floats: Product,
}
