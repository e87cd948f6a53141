//! The instructions of tile registers, carried out where the processor has none: it stops at each of them with a signal, whose
//! handler does what the instruction would do, and goes on behind it. So the tests run the code that a processor with the registers
//! runs, byte by byte, whatever they run on.
//!
//! Encodings and what counts as a mistake are those of Intel's *Architecture Instruction Set Extensions*, chapter 3.

use std::cell::RefCell;

use super::{Configuration, LINE};

const REGISTERS: usize = 8;
const LINES: usize = 16;

/// What a thread's registers hold.
struct State {
    /// Lines, and bytes in each. None before the registers are configured.
    shapes: Option<[(usize, usize); REGISTERS]>,
    lines: [[[u8; LINE]; LINES]; REGISTERS],
}

thread_local! {
    static STATE: RefCell<State> =
        const { RefCell::new(State { shapes: None, lines: [[[0; LINE]; LINES]; REGISTERS] }) };
}

/// Handles the signal of what is no instruction from now on.
pub(super) fn install() {
    // SAFETY: the handler keeps to what may be done in one: it allocates nothing, and its state belongs to the thread.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        assert_eq!(0, libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()));
    }
}

unsafe extern "C" fn handle(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize];
    let instruction = Instruction::decode(at as *const u8, registers);
    let done = instruction
        .as_ref()
        .is_some_and(|instruction| STATE.with_borrow_mut(|state| instruction.carry_out(state)).is_some());
    match instruction {
        Some(instruction) if done => registers[libc::REG_RIP as usize] = at + instruction.len as i64,
        // Not for us, or a mistake: from here on the signal ends the process, where it happened.
        _ => {
            libc::signal(libc::SIGILL, libc::SIG_DFL);
        }
    }
}

/// Decoded from its bytes.
struct Instruction {
    /// The last byte of the opcode, and which of the four prefixes there is.
    opcode: (u8, u8),
    /// The three operands, as far as there are.
    register: usize,
    second: usize,
    third: usize,
    /// The first line in memory, and from each to the next; none where there is no operand in memory.
    memory: Option<(*mut u8, usize)>,
    len: usize,
}

/// Prefixes, as they are encoded.
const NONE: u8 = 0;
const F3: u8 = 2;
const F2: u8 = 3;

impl Instruction {
    /// A VEX prefix of three bytes, map 2, no displacement or one of a byte.
    unsafe fn decode(bytes: *const u8, registers: &[i64; 23]) -> Option<Self> {
        let byte = |i: usize| *bytes.add(i);
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
                assert!(mode != 0 || sib & 7 != 5, "an operand without a base");
                address += general(sib & 7 | high(5, second));
                let index = sib >> 3 & 7 | high(6, second);
                stride = if index == 4 { 0 } else { general(index) << (sib >> 6) };
            } else {
                assert!(mode != 0 || rm != 5, "an operand relative to the instruction");
                address += general(rm | high(5, second));
            }
            match mode {
                1 => {
                    address = address.wrapping_add_signed(isize::from(byte(len).cast_signed()));
                    len += 1;
                }
                2 => {
                    let displacement = bytes.add(len).cast::<i32>().read_unaligned();
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

    /// Does what it says, if that is one of the known instructions and no mistake.
    unsafe fn carry_out(&self, state: &mut State) -> Option<()> {
        match (self.opcode, self.memory) {
            ((0x49, NONE), Some((from, _))) => {
                let Configuration { palette, start, line_bytes, lines, .. } =
                    from.cast::<Configuration>().read_unaligned();
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
                    from.copy_to_nonoverlapping(state.lines[self.register][line].as_mut_ptr(), bytes);
                }
            }
            ((0x4b, F3), Some((to, stride))) => {
                let (lines, bytes) = state.shapes?[self.register];
                for line in 0..lines {
                    let to = to.wrapping_add(line.wrapping_mul(stride));
                    to.copy_from_nonoverlapping(state.lines[self.register][line].as_ptr(), bytes);
                }
            }
            ((0x5e, F2), None) => self.multiply(state)?,
            _ => return None,
        }
        Some(())
    }

    /// `register += second * third`, of signed bytes by fours.
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

/// Where the signal's context has the sixteen registers, by their numbers in instructions.
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
