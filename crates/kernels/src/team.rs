//! A team of threads for short parallel regions.
//!
//! A forward pass of a model has a few hundred short regions of parallel work. Each needs the
//! results of the one before. A general thread pool wakes its threads for each region, and the
//! threads search each other's queues for work. In a team, every thread knows where the work is.
//!
//! The thread that has work opens a region, takes pieces of work along with the workers, and closes
//! the region when no pieces remain. On closing, it waits only for workers that are in the middle
//! of a piece. A worker that the system schedules late, or never, costs nothing except its share of
//! the work.
//!
//! Between regions, workers spin for [`SPIN`], which covers the serial parts of a pass. Then they
//! sleep, so an idle team takes no processor time. A spinning worker yields its processor every few
//! microseconds. Without yielding, two processes with two threads each on two processors decode at
//! 0.55 of the speed.
//!
//! Threads are not pinned to processors, because other processes may use the same ones.

#![allow(
    unsafe_code,
    reason = "the work of a region lives as long as the region, and each piece belongs to one thread"
)]

use std::any::Any;
use std::cell::UnsafeCell;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::matrix_mut::MatrixMut;

/// Time for which a worker spins before it sleeps. Longer than the pause for masks and sampling
/// between two tokens.
const SPIN: Duration = Duration::from_micros(200);
/// Number of times that a waiting thread polls the state of a region before it yields. The polls
/// take a few microseconds.
const LOOKS: usize = 128;

/// Output matrices with the same number of rows. A piece of work computes the same range of rows in
/// all of them.
#[derive(Debug)]
pub struct RowGroup<'a, const M: usize> {
    outputs: [MatrixMut<'a>; M],
    rows: usize,
    at_once: usize,
}

impl<'a, const M: usize> RowGroup<'a, M> {
    /// Groups outputs with the same number of rows. A piece of work has `at_once` rows; the last
    /// piece may have fewer.
    ///
    /// # Panics
    /// Panics if `outputs` is empty, if the outputs have different numbers of rows, or if `at_once`
    /// is 0.
    pub fn new(outputs: [MatrixMut<'a>; M], at_once: usize) -> Self {
        let rows = outputs[0].rows();
        assert!(
            outputs.iter().all(|outputs| outputs.rows() == rows),
            "all outputs must have the same number of rows"
        );
        assert!(at_once > 0, "a piece needs at least one row");
        Self { outputs, rows, at_once }
    }

    const fn chunks(&self) -> usize {
        self.rows.div_ceil(self.at_once)
    }
}

/// A team of threads that does pieces of work together with the calling thread.
///
/// The team shares the work of one calling thread at a time. A call from another thread during that
/// time, or from inside a piece of work, runs on its own thread alone.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use formwork_kernels::Team;
///
/// let team = Team::new(NonZeroUsize::MIN.saturating_add(1))?;
/// let mut squares = [0; 1000];
/// team.for_chunks(&mut squares, 100, |chunk, squares| {
///     for (index, square) in (chunk * 100..).zip(squares) {
///         *square = index * index;
///     }
/// });
/// assert_eq!(squares[999], 999 * 999);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// A value alone on its cache lines, for values that one thread writes and others poll.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

#[derive(Debug, Default)]
struct Shared {
    /// The current region. The work shares a cache line with the state, so a worker that enters has
    /// both at once.
    region: Apart<Current>,
    /// Index of the next piece in the share of each thread. A share is a range of neighbouring
    /// pieces, which usually read neighbouring memory.
    next: Box<[Apart<AtomicUsize>]>,
    /// True while a calling thread has a region open.
    is_led: Apart<AtomicBool>,
    /// Number of workers that sleep and must be woken.
    sleeping: AtomicUsize,
    is_over: AtomicBool,
    /// Payload of a panic in a piece. Valid if the region's state has [`PANICKED`] set.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The current region, or the last one if none is open.
#[derive(Debug, Default)]
struct Current {
    /// Number of the region ([`GENERATION`]), whether a worker panicked in it ([`PANICKED`]),
    /// whether workers may enter ([`OPEN`]), and the number of workers inside ([`INSIDE`]).
    state: AtomicU64,
    work: UnsafeCell<Option<Work>>,
}

// SAFETY: only the thread that has set `is_led` writes `work`, while the region is closed and no
// worker is inside. Workers read `work` only between entering and leaving an open region.
unsafe impl Sync for Shared {}
// SAFETY: `work` points to a task that is `Sync`.
unsafe impl Send for Shared {}

const INSIDE: u64 = OPEN - 1;
const OPEN: u64 = 1 << 32;
const PANICKED: u64 = 1 << 33;
const GENERATION: u64 = !(PANICKED | OPEN | INSIDE);
const NEXT_GENERATION: u64 = PANICKED << 1;

/// A task that is divided into `count` pieces.
#[derive(Clone, Copy, Debug)]
struct Work {
    count: usize,
    /// Points to a value of the type that `piece` expects.
    task: *const (),
    piece: unsafe fn(*const (), usize),
}

impl Work {
    /// Returns the index of the first piece in the share of thread `thread`, of `threads` threads.
    /// For `thread == threads`, returns the number of pieces.
    const fn first(self, thread: usize, threads: usize) -> usize {
        self.count * thread / threads
    }
}

/// Calls the closure behind `task` with the index of a piece.
///
/// # Safety
/// `task` must point to a live `F`.
unsafe fn piece<F: Fn(usize) + Sync>(task: *const (), index: usize) {
    // SAFETY: the caller guarantees that `task` points to a live `F`, which is `Sync`.
    unsafe { (*task.cast::<F>())(index) };
}

impl Team {
    /// Maximum number of threads in a team: the number of processors in the largest machines.
    /// Beyond this number, systems differ in how they fail.
    pub const MOST: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

    /// Starts a team of `threads` threads, including the thread that submits work.
    ///
    /// # Errors
    /// Returns an error if `threads` exceeds [`Team::MOST`], or if the system cannot start another
    /// thread.
    pub fn new(threads: NonZeroUsize) -> io::Result<Self> {
        if threads > Self::MOST {
            let message = format!("{threads} threads exceed the maximum of {}", Self::MOST);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let next = (0..threads.get()).map(|_| Apart::default()).collect();
        let mut team = Self { shared: Arc::new(Shared { next, ..Shared::default() }), workers: Vec::new() };
        for index in 1..threads.get() {
            let shared = Arc::clone(&team.shared);
            let builder = thread::Builder::new().name(format!("compute-{index}"));
            team.workers.push(builder.spawn(move || shared.serve(index))?);
        }
        Ok(team)
    }

    /// Creates a team without workers. The calling thread does all work.
    pub fn alone() -> Self {
        Self { shared: Arc::default(), workers: Vec::new() }
    }

    /// Returns the number of threads, including the calling thread.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` with each element.
    ///
    /// # Panics
    /// Panics if `task` panics, after all other threads are done.
    pub fn for_each<T: Send>(&self, elements: &mut [T], task: impl Fn(&mut T) + Sync) {
        self.for_chunks(elements, 1, |_, element| element.iter_mut().for_each(&task));
    }

    /// Calls `task` with each chunk of `len` elements and its index. The last chunk may be shorter.
    ///
    /// # Panics
    /// Panics if `len` is 0. Also panics if `task` panics, after all other threads are done.
    pub fn for_chunks<T: Send>(&self, elements: &mut [T], len: usize, task: impl Fn(usize, &mut [T]) + Sync) {
        let all = Elements::of(elements);
        // SAFETY: `elements` is borrowed mutably until all pieces are done. `share` calls the task
        // once with each index, and each index is that of a chunk.
        self.share(elements.len().div_ceil(len), &|index| task(index, unsafe { all.chunk(index, len) }));
    }

    /// Calls `task` with each chunk of `a` and the chunk of `b` at the same index. Chunks have `len_a`
    /// and `len_b` elements.
    ///
    /// # Panics
    /// Panics if a length is 0, or if `a` and `b` do not consist of the same number of whole chunks.
    /// Also panics if `task` panics, after all other threads are done.
    pub fn for_pairs<A: Send, B: Send>(
        &self,
        (a, len_a): (&mut [A], usize),
        (b, len_b): (&mut [B], usize),
        task: impl Fn(usize, &mut [A], &mut [B]) + Sync,
    ) {
        let count = a.len() / len_a;
        assert_eq!((a.len(), b.len()), (count * len_a, count * len_b), "lengths of the slices");
        let (a, b) = (Elements::of(a), Elements::of(b));
        // SAFETY: both slices are borrowed mutably until all pieces are done. `share` calls the task
        // once with each index, and each index is that of a chunk of both.
        self.share(count, &|index| unsafe { task(index, a.chunk(index, len_a), b.chunk(index, len_b)) });
    }

    /// Calls `task` for every group and every range of rows in the group.
    ///
    /// The first argument of `task` is the index of the group in `groups`, and the second the index
    /// of the first row of the range. The third is a view of the range in each output of the group.
    /// [`RowGroup::new`] sets the length of the ranges.
    ///
    /// # Panics
    /// Panics if `task` panics, after all other threads are done.
    pub fn for_rows<const M: usize>(
        &self,
        groups: &mut [RowGroup<'_, M>],
        task: impl Fn(usize, usize, [MatrixMut<'_>; M]) + Sync,
    ) {
        let groups = &*groups;
        let count = groups.iter().map(RowGroup::chunks).sum();
        self.share(count, &|mut index| {
            for (which, group) in groups.iter().enumerate() {
                if index < group.chunks() {
                    let first = index * group.at_once;
                    let rows = std::array::from_fn(|output| {
                        // SAFETY: the group has row `first`, as `index` is less than its number of
                        // chunks. `share` calls the task once with each index, so no other view has
                        // these rows. `groups` is borrowed mutably until all pieces are done.
                        unsafe { group.outputs[output].rows_from(first, group.at_once) }
                    });
                    return task(which, first, rows);
                }
                index -= group.chunks();
            }
        });
    }

    /// Does the pieces `0..count` of a task. Workers take part unless another thread leads a
    /// region.
    fn share<F: Fn(usize) + Sync>(&self, count: usize, task: &F) {
        if count <= 1 || self.workers.is_empty() || self.shared.is_led.0.swap(true, Acquire) {
            (0..count).for_each(task);
        } else {
            self.lead(count, task);
        }
    }

    /// Does the pieces `0..count` of a task together with the workers.
    ///
    /// The calling thread must have set `is_led`.
    fn lead<F: Fn(usize) + Sync>(&self, count: usize, task: &F) {
        let shared = &*self.shared;
        let work = Work { count, task: std::ptr::from_ref(task).cast(), piece: piece::<F> };
        // SAFETY: only the thread that has set `is_led` gets here. The last region is closed and no
        // worker is inside.
        unsafe { *shared.region.0.work.get() = Some(work) };
        for (thread, next) in shared.next.iter().enumerate() {
            next.0.store(work.first(thread, shared.next.len()), Relaxed);
        }
        let state = &shared.region.0.state;
        let generation = (state.load(Relaxed) & GENERATION).wrapping_add(NEXT_GENERATION);
        state.store(generation | OPEN, SeqCst);
        // A worker that is not counted here will see the open region. All four accesses are in the
        // single order of `SeqCst`.
        if shared.sleeping.load(SeqCst) > 0 {
            self.workers.iter().for_each(|worker| worker.thread().unpark());
        }
        let region = Region(shared);
        shared.take_pieces(work, 0);
        drop(region);
    }
}

/// An open region. Dropping the value closes the region, also while a panic unwinds.
struct Region<'a>(&'a Shared);

impl Drop for Region<'_> {
    fn drop(&mut self) {
        let Self(shared) = *self;
        let leader_panicked = thread::panicking();
        if leader_panicked {
            // Skips the pieces that have not started.
            shared.next.iter().for_each(|next| next.0.store(usize::MAX / 2, Relaxed));
        }
        let mut state = shared.region.0.state.fetch_and(!OPEN, AcqRel);
        let mut looks = 0_usize;
        while state & INSIDE != 0 {
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            state = shared.region.0.state.load(Acquire);
        }
        let panic = if state & PANICKED == 0 {
            None
        } else {
            shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        shared.is_led.0.store(false, Release);
        if let Some(panic) = panic
            && !leader_panicked
        {
            resume_unwind(panic);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // `serve` catches the panics of pieces, so there is no error to handle.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Runs a worker thread: does pieces of one region after another until the team ends.
    fn serve(&self, thread: usize) {
        let mut seen = 0;
        while let Some(generation) = self.wait(seen) {
            seen = generation;
            // SAFETY: this worker is counted as inside the region, so no thread writes `work`.
            if let Some(work) = unsafe { *self.region.0.work.get() }
                && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_pieces(work, thread)))
            {
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
                self.region.0.state.fetch_or(PANICKED, Relaxed);
            }
            self.region.0.state.fetch_sub(1, Release);
        }
    }

    /// Waits for a region whose generation is not `seen`, and enters the region. Returns its
    /// generation, or `None` if the team ends.
    fn wait(&self, seen: u64) -> Option<u64> {
        let since = Instant::now();
        while since.elapsed() < SPIN {
            for _ in 0..LOOKS {
                if let Some(generation) = self.enter(seen) {
                    return Some(generation);
                }
                std::hint::spin_loop();
            }
            thread::yield_now();
        }
        self.sleeping.fetch_add(1, SeqCst);
        let entered = loop {
            let entered = self.enter(seen);
            if entered.is_some() || self.is_over.load(SeqCst) {
                break entered;
            }
            thread::park();
        };
        self.sleeping.fetch_sub(1, SeqCst);
        entered
    }

    /// Enters the current region if it is open and its generation is not `seen`. Returns the
    /// region's generation, or `None` if the thread has not entered.
    fn enter(&self, seen: u64) -> Option<u64> {
        let current = &self.region.0.state;
        let mut state = current.load(SeqCst);
        while state & OPEN != 0 && state & GENERATION != seen {
            match current.compare_exchange_weak(state, state + 1, AcqRel, SeqCst) {
                Ok(_) => return Some(state & GENERATION),
                Err(now) => state = now,
            }
        }
        None
    }

    /// Does pieces until none remain: first from the thread's own share, then from the shares of
    /// other threads.
    fn take_pieces(&self, work: Work, thread: usize) {
        let threads = self.next.len();
        for thread in (thread..threads).chain(0..thread) {
            let (next, end) = (&self.next[thread].0, work.first(thread + 1, threads));
            // The load first, so that only a thread that may find a piece writes to the counter.
            while next.load(Relaxed) < end {
                let index = next.fetch_add(1, Relaxed);
                if index < end {
                    // SAFETY: `task` points to the value for which `piece` was made. The leader
                    // keeps it alive until the region is closed and all workers have left.
                    unsafe { (work.piece)(work.task, index) };
                }
            }
        }
    }
}

/// A slice that several threads access in disjoint chunks.
struct Elements<T> {
    first: *mut T,
    count: usize,
}

// SAFETY: threads get `&mut` access to disjoint chunks only, as `chunk` requires, and `T` is
// `Send`.
unsafe impl<T: Send> Sync for Elements<T> {}

impl<T> Elements<T> {
    const fn of(elements: &mut [T]) -> Self {
        Self { first: elements.as_mut_ptr(), count: elements.len() }
    }

    /// Returns chunk `index` of `len` elements each. The last chunk may be shorter.
    ///
    /// # Safety
    /// `first` must point to `count` live elements, and `index * len` must be at most `count`.
    /// While the result is alive, nothing else may access the same elements.
    #[expect(clippy::mut_from_ref, reason = "each element is handed out once")]
    unsafe fn chunk(&self, index: usize, len: usize) -> &mut [T] {
        let start = index * len;
        // SAFETY: the caller guarantees that the chunk lies within live elements and that nothing
        // else accesses them.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(start), len.min(self.count - start)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(threads: usize) -> Team {
        Team::new(NonZeroUsize::new(threads).unwrap()).unwrap()
    }

    #[test]
    fn each_chunk_is_done_once() {
        for threads in [1, 2, 5] {
            let team = team(threads);
            assert_eq!(team.threads(), threads);
            for count in (0..300).chain([5000]) {
                let mut elements: Vec<usize> = (0..count).collect();
                let len = count % 7 + 1;
                team.for_chunks(&mut elements, len, |chunk, elements| {
                    assert!(elements.len() == len || chunk == count / len);
                    for (index, element) in (chunk * len..).zip(elements) {
                        assert_eq!(index, *element);
                        *element += 1;
                    }
                });
                assert!(elements.into_iter().eq(1..=count));
            }
        }
    }

    #[test]
    fn each_row_is_written_once() {
        for threads in [1, 2, 5] {
            let team = team(threads);
            for (rows, at_once) in [(1, 1), (7, 3), (64, 16), (100, 200), (0, 4)] {
                let mut floats = vec![0.0; 6 * 3 * rows.max(1)];
                let mut parts =
                    floats.chunks_mut(3 * rows.max(1)).map(|part| MatrixMut::new(part, rows.max(1)));
                let mut next = || parts.next().unwrap().split_off(rows);
                let mut groups: [_; 3] = std::array::from_fn(|_| RowGroup::new([next(), next()], at_once));
                team.for_rows(&mut groups, |group, first, outputs| {
                    for (which, mut outputs) in outputs.into_iter().enumerate() {
                        assert_eq!(outputs.rows(), at_once.min(rows - first));
                        for token in 0..outputs.tokens() {
                            for (row, out) in (first..).zip(outputs.token(token)) {
                                *out += (1000 * group + 100 * which + row + 1) as f32;
                            }
                        }
                    }
                });
                for (part, floats) in floats.chunks(3 * rows.max(1)).enumerate() {
                    for (row, out) in floats.iter().enumerate().filter(|_| rows > 0) {
                        let expected = (1000 * (part / 2) + 100 * (part % 2) + row % rows + 1) as f32;
                        assert_eq!(out.to_bits(), expected.to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn several_threads_and_pieces_may_have_work() {
        let team = team(3);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mut rows = [[0_u8; 8]; 8];
                        team.for_each(&mut rows, |row| team.for_each(row, |element| *element += 1));
                        assert_eq!(rows, [[1; 8]; 8]);
                    }
                });
            }
        });
    }

    #[test]
    fn panics_propagate_to_the_caller() {
        let team = team(4);
        for bad in 0..64 {
            let mut elements: Vec<usize> = (0..64).collect();
            let work = || team.for_each(&mut elements, |element| assert_ne!(*element, bad, "a bad piece"));
            let panic = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
            assert!(panic.downcast_ref::<String>().unwrap().contains("a bad piece"));
            // The next call works as usual.
            let mut elements = vec![1; 64];
            team.for_each(&mut elements, |element| *element += 1);
            assert_eq!(elements, [2; 64]);
        }
    }

    #[test]
    fn threads_without_work_sleep_and_wake_up() {
        let team = team(3);
        for _ in 0..3 {
            while team.shared.sleeping.load(SeqCst) < 2 {
                thread::yield_now();
            }
            // Two pieces that wait for each other need a second thread.
            let met = AtomicUsize::new(0);
            team.for_each(&mut [(); 2], |()| {
                met.fetch_add(1, SeqCst);
                while met.load(SeqCst) < 2 {
                    thread::yield_now();
                }
            });
        }
    }
}
