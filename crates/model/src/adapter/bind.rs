//! Binding of an adapter to the matrices of a model.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::places::{Place, Places};
use super::{AdapterFile, Pair};
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use crate::spec::ModelSpec;
use crate::weights::{Matrix, Origin, Packed, Weights, pack_all};

/// An adapter that is bound to the matrices of a model.
#[derive(Debug)]
pub(crate) struct Adapter {
    /// Changes of the matrices, by [`Packed::index`].
    deltas: Vec<Option<Delta>>,
    embedding: Option<EmbeddingDelta>,
    bytes: usize,
}

/// Change of a matrix: the product of two small matrices.
#[derive(Debug)]
pub(crate) struct Delta {
    /// Shape: `[rank, inputs]`.
    pub(crate) a: Packed,
    /// Shape: `[outputs, rank]`. Includes the factor of the adapter.
    pub(crate) b: Packed,
}

/// Change of the embedding.
#[derive(Debug)]
pub(crate) struct EmbeddingDelta {
    /// Shape: `[vocabulary, rank]`.
    pub(crate) a: Vec<f32>,
    /// Shape: `[hidden, rank]`. Includes the factor of the adapter.
    pub(crate) b: Packed,
}

impl Adapter {
    /// Returns the change of a matrix, or `None` if the adapter does not change it.
    pub(crate) fn delta(&self, matrix: &Packed) -> Option<&Delta> {
        self.deltas.get(matrix.index()).and_then(Option::as_ref)
    }

    /// Returns the change of the embedding.
    pub(crate) const fn embedding(&self) -> Option<&EmbeddingDelta> {
        self.embedding.as_ref()
    }

    /// Returns the size of the adapter in memory, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Finds the matrices that an adapter changes, and packs the adapter's matrices. `scale` is a further
/// factor of their effect.
pub(crate) fn bind(
    file: &AdapterFile,
    base: &Checkpoint,
    (spec, weights): (&ModelSpec, &Weights<Packed>),
    scale: f32,
) -> Result<Adapter, Kind> {
    let places = Places::new(file, base, spec)?;
    let mut binder = Binder { file, scale, parts: Vec::new(), known: FxHashMap::default() };
    let mut used = BTreeSet::new();
    let (mut deltas, mut error) = (Vec::new(), None);
    weights.each(&mut |matrix, _| {
        let bound = matrix.origin().map(|origin| binder.matrix(&places, matrix, origin, &mut used));
        match bound.transpose() {
            Ok(delta) => deltas.push(delta.flatten()),
            Err(kind) => error = error.take().or(Some(kind)),
        }
    });
    if let Some(kind) = error {
        return Err(kind);
    }
    let name = places.embedding();
    let embedding = match file.pairs.get(&name) {
        Some(pair) if pair.is_embedding || file.is_gguf() => {
            used.insert(name);
            Some(binder.embedding(pair, spec)?)
        }
        _ => None,
    };
    if let Some((_, pair)) = file.pairs.iter().find(|(module, _)| !used.contains(*module)) {
        let tensor = pair.a.clone();
        return Err(Kind::UnmatchedTensor { tensor, architecture: spec.architecture.clone() });
    }
    let packed = pack_all(&binder.parts)?;
    let embedding = embedding.map(|(a, b)| EmbeddingDelta { a, b: packed[b].clone() });
    let bytes = packed.first().map_or(0, |packed| packed.neighbours().len())
        + embedding.as_ref().map_or(0, |embedding| size_of_val(&*embedding.a));
    let delta = |(a, b): (usize, usize)| Delta { a: packed[a].clone(), b: packed[b].clone() };
    let deltas = deltas.into_iter().map(|parts: Option<_>| parts.map(delta)).collect();
    Ok(Adapter { deltas, embedding, bytes })
}

struct Binder<'a> {
    file: &'a AdapterFile,
    scale: f32,
    /// Matrices to pack.
    parts: Vec<Matrix>,
    /// Indices of first matrices in `parts`, by module and index among the stacked matrices. Matrices
    /// of the model that are rows of one tensor share them.
    known: FxHashMap<(String, usize), usize>,
}

impl Binder<'_> {
    /// Returns the indices in `parts` of the two matrices that change a matrix of the model. Returns
    /// `None` if the adapter does not change it.
    fn matrix(
        &mut self,
        places: &Places<'_>,
        matrix: &Packed,
        origin: &Origin,
        used: &mut BTreeSet<String>,
    ) -> Result<Option<(usize, usize)>, Kind> {
        let file = self.file;
        let found = places.of(origin).into_iter();
        let mut found =
            found.filter_map(|place| file.pairs.get_key_value(&place.module).map(|pair| (place, pair)));
        let Some((place, (module, pair))) = found.find(|(_, (_, pair))| !pair.is_embedding) else {
            return Ok(None);
        };
        used.insert(module.clone());
        let inner = if origin.is_transposed { matrix.rows } else { matrix.columns };
        let rows =
            (0..origin.rows.len()).map(|row| places.row(&place, origin.rows.at(row) % origin.height.max(1)));
        let b = self.values(&pair.b, place.matrix, [pair.rank, origin.height])?;
        let mut b: Vec<f32> =
            rows.flat_map(|row| b[row * pair.rank..(row + 1) * pair.rank].to_vec()).collect();
        if origin.is_transposed {
            // The change of the transposed matrix is the product of the transposed matrices in the
            // other order.
            let a = self.values(&pair.a, place.matrix, [inner, pair.rank])?;
            let a = self.add(&transposed(&a, inner), pair.rank);
            b = transposed(&b, pair.rank);
            let first = self.add(&b, origin.rows.len());
            self.scale(a, pair);
            return Ok(Some((first, a)));
        }
        let key = (module.clone(), place.matrix);
        let a = match self.known.get(&key) {
            Some(&a) if self.parts[a].columns == inner => a,
            _ => {
                let a = self.first(places, &place, pair, inner)?;
                self.known.insert(key, a);
                a
            }
        };
        let b = self.add(&b, pair.rank);
        self.scale(b, pair);
        Ok(Some((a, b)))
    }

    /// Reads the first matrix of a pair. Returns its index in `parts`.
    fn first(
        &mut self,
        places: &Places<'_>,
        place: &Place,
        pair: &Pair,
        inner: usize,
    ) -> Result<usize, Kind> {
        let mut a = self.values(&pair.a, place.matrix, [inner, pair.rank])?;
        if let Some(columns) = places.columns(place).filter(|columns| columns.len() == inner) {
            a = a.chunks_exact(inner).flat_map(|row| columns.iter().map(|&column| row[column])).collect();
        }
        Ok(self.add(&a, inner))
    }

    /// Returns the first matrix of the change of the embedding, of shape `[vocabulary, rank]`, and the
    /// index in `parts` of the second one.
    fn embedding(&mut self, pair: &Pair, spec: &ModelSpec) -> Result<(Vec<f32>, usize), Kind> {
        let b = self.values(&pair.b, 0, [pair.rank, spec.hidden])?;
        let a = if pair.is_embedding {
            transposed(&self.values(&pair.a, 0, [spec.vocabulary, pair.rank])?, spec.vocabulary)
        } else {
            self.values(&pair.a, 0, [pair.rank, spec.vocabulary])?
        };
        let b = self.add(&b, pair.rank);
        self.scale(b, pair);
        Ok((a, b))
    }

    /// Reads one of the matrices in a tensor, which must have the given numbers of columns and rows.
    fn values(&self, name: &str, matrix: usize, shape: [usize; 2]) -> Result<Vec<f32>, Kind> {
        let mut expected = shape.map(|dim| dim as u64).to_vec();
        let tensors = &self.file.tensors;
        let given = tensors.tensor(name).map(|info| info.shape.clone()).unwrap_or_default();
        if let Some(&count) = given.get(2)
            && matrix < count as usize
        {
            expected.push(count);
        }
        if given.len() == 2 && matrix > 0 {
            expected.push(matrix as u64 + 1);
        }
        let (info, encoding) = tensors.encoded(name, &expected)?;
        let len = tensors.bytes(info).len() / given.get(2).map_or(1, |&count| count as usize);
        let mut values = vec![0.0; shape[0] * shape[1]];
        formwork_kernels::dequantize(encoding, &tensors.bytes(info)[matrix * len..][..len], &mut values);
        if values.iter().all(|value| value.is_finite()) {
            return Ok(values);
        }
        Err(Kind::NotFinite { tensor: name.to_owned() })
    }

    /// Adds a matrix to `parts` and returns its index.
    fn add(&mut self, values: &[f32], columns: usize) -> usize {
        self.parts.push(Matrix::of_floats(values, columns));
        self.parts.len() - 1
    }

    /// Multiplies a matrix in `parts` by the factor of a pair.
    fn scale(&mut self, part: usize, pair: &Pair) {
        let factor = (pair.scale * f64::from(self.scale)) as f32;
        self.parts[part] = self.parts[part].clone().scaled(factor);
    }
}

/// Transposes a matrix with rows of `columns` elements.
fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = values.len() / columns.max(1);
    (0..values.len()).map(|at| values[at % rows * columns + at / rows]).collect()
}
