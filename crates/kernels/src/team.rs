//! Threads that compute together.
//!
//! A pass of a model is a few hundred short regions of work, each of which needs what the one before it made. A general pool wakes
//! its threads for each, and they look for work in each other's queues; here all know where it is. Whoever has work opens a region, takes
//! pieces of it along with the others, and closes it when there are none left: it waits for those alone that are still at a piece, so
//! that a thread that the system runs late, or not at all, costs nothing but its help.
//!
//! Between regions threads spin, for as long as a pass computes alone in between ([`SPIN`]), and then sleep: a team that has nothing to
//! do takes no time of a processor. Who spins offers its processor to others every few microseconds: without that, two processes with two threads each
//! on two processors decode at 0.55 of the speed. Threads are not bound to processors, which they may have to share with those of other processes.

#![allow(
    unsafe_code,
    reason = "a region's work lives as long as the region, and each piece of it is one thread's alone"
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

use crate::outputs::Outputs;

/// How long a thread waits for the next region before it sleeps: more than what lies between two tokens, which is sampling and masks.
const SPIN: Duration = Duration::from_micros(200);
/// Looks at a region's state, some microseconds of them, before a thread that waits offers its processor to others.
const LOOKS: usize = 128;

/// Outputs of which the same rows go together.
#[derive(Debug)]
pub struct RowGroup<'a, const M: usize> {
    outputs: [Outputs<'a>; M],
    rows: usize,
    at_once: usize,
}

impl<'a, const M: usize> RowGroup<'a, M> {
    /// Outputs of as many rows, of which `at_once` make a piece of work.
    ///
    /// # Panics
    /// When there are none, they have not as many rows, or `at_once` is 0.
    pub fn new(outputs: [Outputs<'a>; M], at_once: usize) -> Self {
        let rows = outputs[0].rows();
        assert!(outputs.iter().all(|outputs| outputs.rows() == rows), "as many rows of all outputs");
        assert!(at_once > 0, "rows of a piece");
        Self { outputs, rows, at_once }
    }

    const fn chunks(&self) -> usize {
        self.rows.div_ceil(self.at_once)
    }
}

/// Threads that take pieces of work together, with the one that has the work.
///
/// Work of one thread is shared out at a time: that of another which comes meanwhile, and that of a piece of work, is done by
/// the thread that has it, alone.
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

/// What a thread writes that others read again and again, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

#[derive(Debug, Default)]
struct Shared {
    /// What who enters a region needs comes with its line of the cache.
    region: Apart<Current>,
    /// The pieces that are taken next, of those of each thread: they are neighbours, and so is what they read.
    next: Box<[Apart<AtomicUsize>]>,
    /// Whether a thread has a region.
    is_led: Apart<AtomicBool>,
    /// Workers that must be woken up.
    sleeping: AtomicUsize,
    is_over: AtomicBool,
    /// What a piece panicked with, where the state tells of that.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The region that there is, or was last.
#[derive(Debug, Default)]
struct Current {
    /// How many there were before ([`GENERATION`]), whether a worker panicked in it ([`PANICKED`]), whether it may be entered
    /// ([`OPEN`]), and how many workers are in it ([`INSIDE`]).
    state: AtomicU64,
    work: UnsafeCell<Option<Work>>,
}

// SAFETY: `work` is written by the thread that has set `is_led`, when the region is closed and nobody is inside, and read by those that
// have entered after it was opened.
unsafe impl Sync for Shared {}
// SAFETY: `work` points to what can be shared.
unsafe impl Send for Shared {}

const INSIDE: u64 = OPEN - 1;
const OPEN: u64 = 1 << 32;
const PANICKED: u64 = 1 << 33;
const GENERATION: u64 = !(PANICKED | OPEN | INSIDE);
const NEXT_GENERATION: u64 = PANICKED << 1;

/// So many pieces of work, and what does one.
#[derive(Clone, Copy, Debug)]
struct Work {
    count: usize,
    /// Of the type that `piece` is for.
    task: *const (),
    piece: unsafe fn(*const (), usize),
}

impl Work {
    /// The first piece of a thread, of so many.
    const fn first(self, thread: usize, threads: usize) -> usize {
        self.count * thread / threads
    }
}

/// Does a piece of a task.
///
/// # Safety
/// `task` points to an `F`.
unsafe fn piece<F: Fn(usize) + Sync>(task: *const (), index: usize) {
    // SAFETY: as above.
    unsafe { (*task.cast::<F>())(index) };
}

impl Team {
    /// The most threads of a team: as many as there are processors in the largest machines. Systems differ in what they do when asked for
    /// too many.
    pub const MOST: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

    /// A team of so many threads, of which one is whoever has work.
    ///
    /// # Errors
    /// When there are more than [`Team::MOST`], or the system starts no more threads.
    pub fn new(threads: NonZeroUsize) -> io::Result<Self> {
        if threads > Self::MOST {
            let message = format!("{threads} threads, of {} at most", Self::MOST);
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

    /// Whoever has work, alone.
    pub fn alone() -> Self {
        Self { shared: Arc::default(), workers: Vec::new() }
    }

    /// How many threads there are, with the one that has the work.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` with each element.
    ///
    /// # Panics
    /// When `task` does, after all others are done.
    pub fn for_each<T: Send>(&self, elements: &mut [T], task: impl Fn(&mut T) + Sync) {
        self.for_chunks(elements, 1, |_, element| element.iter_mut().for_each(&task));
    }

    /// Calls `task` with each chunk of so many elements, of which the last may have less, and its index.
    ///
    /// # Panics
    /// When `len` is 0, or `task` panics, then after all others are done.
    pub fn for_chunks<T: Send>(&self, elements: &mut [T], len: usize, task: impl Fn(usize, &mut [T]) + Sync) {
        let all = Elements { first: elements.as_mut_ptr(), count: elements.len() };
        // SAFETY: each index is taken once.
        self.share(elements.len().div_ceil(len), &|index| task(index, unsafe { all.chunk(index, len) }));
    }

    /// Calls `task` with the rows of some outputs, a few at a time: with the index of a group, the first of the rows, and these of all outputs of
    /// the group.
    ///
    /// # Panics
    /// When `task` does, after all others are done.
    pub fn for_rows<const M: usize>(
        &self,
        groups: &mut [RowGroup<'_, M>],
        task: impl Fn(usize, usize, [Outputs<'_>; M]) + Sync,
    ) {
        let groups = &*groups;
        let count = groups.iter().map(RowGroup::chunks).sum();
        self.share(count, &|mut index| {
            for (which, group) in groups.iter().enumerate() {
                if index < group.chunks() {
                    let first = index * group.at_once;
                    let rows = std::array::from_fn(|output| {
                        // SAFETY: each index is taken once, and with it these rows; the groups are borrowed as long.
                        unsafe { group.outputs[output].rows_from(first, group.at_once) }
                    });
                    return task(which, first, rows);
                }
                index -= group.chunks();
            }
        });
    }

    /// Has pieces of a task done, together if that is possible.
    fn share<F: Fn(usize) + Sync>(&self, count: usize, task: &F) {
        if count <= 1 || self.workers.is_empty() || self.shared.is_led.0.swap(true, Acquire) {
            (0..count).for_each(task);
        } else {
            self.lead(count, task);
        }
    }

    /// Has all pieces of a task done.
    ///
    /// This thread must have set `is_led`.
    fn lead<F: Fn(usize) + Sync>(&self, count: usize, task: &F) {
        let shared = &*self.shared;
        let work = Work { count, task: std::ptr::from_ref(task).cast(), piece: piece::<F> };
        // SAFETY: only who leads comes here, the region before was closed, and nobody was left inside.
        unsafe { *shared.region.0.work.get() = Some(work) };
        for (thread, next) in shared.next.iter().enumerate() {
            next.0.store(work.first(thread, shared.next.len()), Relaxed);
        }
        let state = &shared.region.0.state;
        let generation = (state.load(Relaxed) & GENERATION).wrapping_add(NEXT_GENERATION);
        state.store(generation | OPEN, SeqCst);
        // Who is not counted yet will see that the region is open: both are in the one order of `SeqCst`.
        if shared.sleeping.load(SeqCst) > 0 {
            self.workers.iter().for_each(|worker| worker.thread().unpark());
        }
        let region = Region(shared);
        shared.take_pieces(work, 0);
        drop(region);
    }
}

/// A region that is open; it ends when it is dropped, which a panic does, too.
struct Region<'a>(&'a Shared);

impl Drop for Region<'_> {
    fn drop(&mut self) {
        let Self(shared) = *self;
        let leader_panicked = thread::panicking();
        if leader_panicked {
            // What is left is not begun.
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
            // Panics of pieces were caught.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// A worker's life.
    fn serve(&self, thread: usize) {
        let mut seen = 0;
        while let Some(generation) = self.wait(seen) {
            seen = generation;
            // SAFETY: this worker is inside.
            if let Some(work) = unsafe { *self.region.0.work.get() }
                && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_pieces(work, thread)))
            {
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
                self.region.0.state.fetch_or(PANICKED, Relaxed);
            }
            self.region.0.state.fetch_sub(1, Release);
        }
    }

    /// Enters the next region; `None` when there will be none.
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

    /// Enters a region that is open and is not the one that was `seen`.
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

    /// Does pieces until none is left: a thread's own, and then those that others have not come to.
    fn take_pieces(&self, work: Work, thread: usize) {
        let threads = self.next.len();
        for thread in (thread..threads).chain(0..thread) {
            let (next, end) = (&self.next[thread].0, work.first(thread + 1, threads));
            // Only who finds one left writes.
            while next.load(Relaxed) < end {
                let index = next.fetch_add(1, Relaxed);
                if index < end {
                    // SAFETY: the task lives until the region is closed and all have left it.
                    unsafe { (work.piece)(work.task, index) };
                }
            }
        }
    }
}

/// Elements of which each thread has chunks of its own.
struct Elements<T> {
    first: *mut T,
    count: usize,
}

// SAFETY: of each element there is one `&mut`.
unsafe impl<T: Send> Sync for Elements<T> {}

impl<T> Elements<T> {
    /// A chunk of `len` elements; the last may have less.
    ///
    /// # Safety
    /// The elements live, there is such a chunk, and it is given once.
    #[expect(clippy::mut_from_ref, reason = "each is given once")]
    unsafe fn chunk(&self, index: usize, len: usize) -> &mut [T] {
        let start = index * len;
        // SAFETY: as above.
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
                    floats.chunks_mut(3 * rows.max(1)).map(|part| Outputs::new(part, rows.max(1)));
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
    fn panics_come_to_who_has_the_work() {
        let team = team(4);
        for bad in 0..64 {
            let mut elements: Vec<usize> = (0..64).collect();
            let work = || team.for_each(&mut elements, |element| assert_ne!(*element, bad, "a bad piece"));
            let panic = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
            assert!(panic.downcast_ref::<String>().unwrap().contains("a bad piece"));
            // The next finds all in order.
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
