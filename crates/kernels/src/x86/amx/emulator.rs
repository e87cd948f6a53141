//! Emulator of the instructions for tile registers, for tests on processors without AMX.
//!
//! Such a processor raises `SIGILL` at each of these instructions. The signal handler executes the
//! instruction and resumes after it. The tests thus run the same machine code as a processor with
//! AMX.
//!
//! Encodings and error conditions are those of Intel's *Architecture Instruction Set Extensions*,
//! chapter 3.

use std::cell::RefCell;

use super::{Configuration, LINE};

const REGISTERS: usize = 8;
const LINES: usize = 16;

/// The tile registers of a thread.
struct State {
    /// Number of lines and of bytes per line of each register. `None` if the registers are not
    /// configured.
    shapes: Option<[(usize, usize); REGISTERS]>,
    lines: [[[u8; LINE]; LINES]; REGISTERS],
}

thread_local! {
    static STATE: RefCell<State> =
        const { RefCell::new(State { shapes: None, lines: [[[0; LINE]; LINES]; REGISTERS] }) };
}

/// Installs the handler for illegal instructions.
pub(super) fn install() {
    // SAFETY: the handler does only what is allowed in a signal handler. It allocates nothing, and
    // its state belongs to the thread.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        assert_eq!(0, libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()));
    }
}

/// Executes an instruction for tile registers that the processor has reported as illegal.
///
/// # Safety
/// Only the system may call the function, as a signal handler: `context` must point to the
/// `ucontext_t` of this thread.
unsafe extern "C" fn handle(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes the context of this thread.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize];
    // SAFETY: the instruction pointer points to the instruction that raised the signal.
    let instruction = unsafe { Instruction::decode(at as *const u8, registers) };
    let done = instruction.as_ref().is_some_and(|instruction| {
        // SAFETY: the program executes the instruction with this operand.
        STATE.with_borrow_mut(|state| unsafe { instruction.carry_out(state) }).is_some()
    });
    match instruction {
        Some(instruction) if done => registers[libc::REG_RIP as usize] = at + instruction.len as i64,
        // The instruction is unknown or invalid. With the default action, the instruction raises
        // the signal again, which ends the process at the place of the error.
        _ => {
            // SAFETY: a signal handler may call the function.
            unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
        }
    }
}

/// A decoded instruction.
struct Instruction {
    /// Last byte of the opcode, and the implied prefix.
    opcode: (u8, u8),
    /// Register of the first operand.
    register: usize,
    /// Register of the second operand.
    second: usize,
    /// Register of the third operand.
    third: usize,
    /// Address of the first line in memory, and the distance between lines in bytes. `None` without
    /// an operand in memory.
    memory: Option<(*mut u8, usize)>,
    len: usize,
}

/// Implied prefixes, as they are encoded.
const NONE: u8 = 0;
const F3: u8 = 2;
const F2: u8 = 3;

impl Instruction {
    /// Decodes an instruction with a VEX prefix of three bytes in opcode map 2. A displacement is
    /// absent, or has one or four bytes.
    ///
    /// # Safety
    /// `bytes` must point to an instruction of this process.
    unsafe fn decode(bytes: *const u8, registers: &[i64; 23]) -> Option<Self> {
        // SAFETY: the caller ensures an instruction. Only its bytes are read.
        let byte = |i: usize| unsafe { *bytes.add(i) };
        let (second, third) = (byte(1), byte(2));
        if byte(0) != 0xc4 || second & 0x1f != 2 || third & 0x84 != 0 {
            return None;
        }
        let high = |bit: u8, is_inverted: u8| if is_inverted >> bit & 1 == 0 { 8 } else { 0 };
        let (mode, reg, rm) = (byte(4) >> 6, byte(4) >> 3 & 7, byte(4) & 7);
        let general = |number: u8| registers[GENERAL[usize::from(number)] as usize] as usize;
        let (mut memory, mut len) = (None, 5);
        if mode != 3 {
            let (mut address, mut stride) = (0, 0);
            if rm == 4 {
                let sib = byte(len);
                len += 1;
                assert!(mode != 0 || sib & 7 != 5, "operands without a base are not supported");
                address += general(sib & 7 | high(5, second));
                let index = sib >> 3 & 7 | high(6, second);
                stride = if index == 4 { 0 } else { general(index) << (sib >> 6) };
            } else {
                assert!(mode != 0 || rm != 5, "operands relative to the instruction are not supported");
                address += general(rm | high(5, second));
            }
            match mode {
                1 => {
                    address = address.wrapping_add_signed(isize::from(byte(len).cast_signed()));
                    len += 1;
                }
                2 => {
                    // SAFETY: the instruction has a displacement of four bytes here.
                    let displacement = unsafe { bytes.add(len).cast::<i32>().read_unaligned() };
                    address = address.wrapping_add_signed(displacement as isize);
                    len += 4;
                }
                _ => {}
            }
            memory = Some((address as *mut u8, stride));
        }
        Some(Self {
            opcode: (byte(3), third & 3),
            register: reg.into(),
            second: rm.into(),
            third: (!third >> 3 & 15).into(),
            memory,
            len,
        })
    }

    /// Executes the instruction. Returns `None` if it is unknown, or if the processor would report
    /// an error.
    ///
    /// # Safety
    /// The operand in memory must be valid for the bytes that the instruction reads or writes.
    unsafe fn carry_out(&self, state: &mut State) -> Option<()> {
        match (self.opcode, self.memory) {
            ((0x49, NONE), Some((from, _))) => {
                // SAFETY: the instruction reads a configuration, so the caller ensures one.
                let Configuration { palette, start, line_bytes, lines, .. } =
                    unsafe { from.cast::<Configuration>().read_unaligned() };
                let is_sound =
                    |&(lines, bytes): &(usize, usize)| lines <= LINES && bytes <= LINE && bytes % 4 == 0;
                let shapes = std::array::from_fn(|i| (usize::from(lines[i]), usize::from(line_bytes[i])));
                (palette == 1 && start == 0 && shapes.iter().all(is_sound)).then_some(())?;
                state.shapes = Some(shapes);
                state.lines = [[[0; LINE]; LINES]; REGISTERS];
            }
            ((0x49, NONE), None) => state.shapes = None,
            ((0x49, F2), None) => {
                state.shapes?;
                state.lines[self.register] = [[0; LINE]; LINES];
            }
            ((0x4b, F2), Some((from, stride))) => {
                let (lines, bytes) = state.shapes?[self.register];
                state.lines[self.register] = [[0; LINE]; LINES];
                for line in 0..lines {
                    let from = from.wrapping_add(line.wrapping_mul(stride));
                    let to = state.lines[self.register][line].as_mut_ptr();
                    // SAFETY: the instruction reads these bytes. A line has room for them.
                    unsafe { from.copy_to_nonoverlapping(to, bytes) };
                }
            }
            ((0x4b, F3), Some((to, stride))) => {
                let (lines, bytes) = state.shapes?[self.register];
                for line in 0..lines {
                    let to = to.wrapping_add(line.wrapping_mul(stride));
                    let from = state.lines[self.register][line].as_ptr();
                    // SAFETY: the instruction writes these bytes. A line has as many.
                    unsafe { to.copy_from_nonoverlapping(from, bytes) };
                }
            }
            ((0x5e, F2), None) => self.multiply(state)?,
            _ => return None,
        }
        Some(())
    }

    /// Computes `register += second * third` for signed bytes, four per lane.
    fn multiply(&self, state: &mut State) -> Option<()> {
        let [sums, a, b] = [self.register, self.second, self.third];
        let shapes = state.shapes?;
        let ((lines, bytes), (a_lines, a_bytes), (b_lines, b_bytes)) = (shapes[sums], shapes[a], shapes[b]);
        let fits = lines == a_lines && a_bytes == 4 * b_lines && bytes == b_bytes;
        (fits && sums != a && sums != b && a != b).then_some(())?;
        for line in 0..lines {
            for column in 0..bytes / 4 {
                let four = |register: usize, line: usize, column: usize| -> [i8; 4] {
                    std::array::from_fn(|i| state.lines[register][line][4 * column + i].cast_signed())
                };
                let mut sum = i32::from_le_bytes(four(sums, line, column).map(i8::cast_unsigned));
                for piece in 0..b_lines {
                    let (x, weights) = (four(a, line, piece), four(b, piece, column));
                    sum += (0..4).map(|i| i32::from(x[i]) * i32::from(weights[i])).sum::<i32>();
                }
                state.lines[sums][line][4 * column..][..4].copy_from_slice(&sum.to_le_bytes());
            }
        }
        Some(())
    }
}

/// Indices of the sixteen general registers in a signal's context, by their numbers in
/// instructions.
const GENERAL: [libc::c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];
