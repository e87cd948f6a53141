use formwork_grammar::{Formats, Layout, Limits, Order, Profile, SchemaOptions, Undeclared};

use crate::failure::Failure;

/// Profile: each value of a schema has one spelling. This is the default, and made for generation.
pub const FORMWORK_PROFILE_GENERATE: u32 = 0;
/// Profile: a value of a schema may have any spelling that JSON allows. Made for validation.
pub const FORMWORK_PROFILE_ACCEPT: u32 = 1;

/// Layout: one space after each comma and colon, as in `{"a": [1, 2]}`. This is the default.
pub const FORMWORK_LAYOUT_SPACED: u32 = 0;
/// Layout: no white space, as in `{"a":[1,2]}`.
pub const FORMWORK_LAYOUT_COMPACT: u32 = 1;
/// Layout: each item and member on its own line, indented by two spaces per level.
pub const FORMWORK_LAYOUT_PRETTY: u32 = 2;
/// Layout: up to 16 spaces and line breaks at each place; any white space with the accept profile.
pub const FORMWORK_LAYOUT_FLEXIBLE: u32 = 3;
/// Layout: as `FORMWORK_LAYOUT_FLEXIBLE`, but no white space around the whole value.
pub const FORMWORK_LAYOUT_INSIDE: u32 = 4;

/// Order: members are written in the order in which the schema declares them. This is the default.
pub const FORMWORK_ORDER_DECLARED: u32 = 0;
/// Order: members are written in any order.
pub const FORMWORK_ORDER_ANY: u32 = 1;

/// Formats: strings must have their `format`. This is the default.
pub const FORMWORK_FORMATS_ASSERT: u32 = 0;
/// Formats: `format` has no effect.
pub const FORMWORK_FORMATS_ANNOTATE: u32 = 1;

/// Undeclared: objects with `properties` have no members that the schema does not mention. This is
/// the default.
pub const FORMWORK_UNDECLARED_OMIT: u32 = 0;
/// Undeclared: members that the schema does not mention may occur.
pub const FORMWORK_UNDECLARED_ALLOW: u32 = 1;

/// Highest value of `FormworkOptions::nesting`.
pub const FORMWORK_NESTING_MAX: usize = 1024;

/// Options for compiling a grammar. A field of value 0 has its default, except `size`:
/// `FormworkOptions options = { .size = sizeof options };`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FormworkOptions {
    /// Size of this struct in bytes. It tells the library which version of the struct the caller has.
    pub size: usize,
    /// Spellings of strings and numbers: one of `FORMWORK_PROFILE_…`.
    pub profile: u32,
    /// White space in arrays and objects: one of `FORMWORK_LAYOUT_…`.
    pub layout: u32,
    /// Order of the members of an object: one of `FORMWORK_ORDER_…`.
    pub order: u32,
    /// Effect of the keyword `format`: one of `FORMWORK_FORMATS_…`.
    pub formats: u32,
    /// Members that a schema does not mention: one of `FORMWORK_UNDECLARED_…`.
    pub undeclared: u32,
    /// Not used; must be 0.
    pub reserved: u32,
    /// Maximum size of a GBNF, Lark or regular expression source, in bytes. The default is 4 MiB.
    pub source_bytes: usize,
    /// Maximum nesting depth in the source. The default is 256, and the highest value is
    /// `FORMWORK_NESTING_MAX`.
    pub nesting: usize,
    /// Maximum number of automaton states of a grammar. The default is 262,144.
    pub states: usize,
    /// Maximum work of one compilation, in steps of about 10 ns. The default is 33,554,432.
    pub work: usize,
    /// Maximum memory of one compilation, in bytes. The default is 192 MiB.
    pub bytes: usize,
    /// Maximum length of the shortest output, in bytes. The default is 64 KiB.
    pub shortest_bytes: usize,
    /// Maximum memory of the caches of one constraint, in bytes. The default is 256 MiB. Full caches
    /// are emptied, which costs time and changes no mask.
    pub cache_bytes: usize,
}

impl FormworkOptions {
    fn schema_options(&self) -> Result<SchemaOptions, Failure> {
        let profiles = [Profile::Generate, Profile::Accept];
        let layouts = [Layout::Spaced, Layout::Compact, Layout::Pretty, Layout::Flexible, Layout::Inside];
        let orders = [Order::Declared, Order::Any];
        let formats = [Formats::Assert, Formats::Annotate];
        let undeclared = [Undeclared::Omit, Undeclared::Allow];
        Ok(SchemaOptions {
            profile: one_of(self.profile, &profiles, "profile", "one of FORMWORK_PROFILE_…")?,
            layout: one_of(self.layout, &layouts, "layout", "one of FORMWORK_LAYOUT_…")?,
            order: one_of(self.order, &orders, "order", "one of FORMWORK_ORDER_…")?,
            formats: one_of(self.formats, &formats, "formats", "one of FORMWORK_FORMATS_…")?,
            undeclared: one_of(self.undeclared, &undeclared, "undeclared", "one of FORMWORK_UNDECLARED_…")?,
        })
    }

    fn limits(&self) -> Result<Limits, Failure> {
        if self.nesting > FORMWORK_NESTING_MAX {
            return Err(Failure::Nesting { given: self.nesting, limit: FORMWORK_NESTING_MAX });
        }
        let default = Limits::default();
        let given = |given: usize, default: usize| if given == 0 { default } else { given };
        Ok(Limits {
            source_bytes: given(self.source_bytes, default.source_bytes),
            nesting: given(self.nesting, default.nesting),
            states: given(self.states, default.states),
            work: given(self.work, default.work),
            bytes: given(self.bytes, default.bytes),
            shortest_bytes: given(self.shortest_bytes, default.shortest_bytes),
            cache_bytes: given(self.cache_bytes, default.cache_bytes),
        })
    }
}

fn one_of<T: Copy>(given: u32, values: &[T], field: &str, expected: &'static str) -> Result<T, Failure> {
    values.get(given as usize).copied().ok_or_else(|| unknown(field, given as usize, expected))
}

fn unknown(field: &str, given: usize, expected: &'static str) -> Failure {
    Failure::UnknownValue { argument: format!("options.{field}"), given, expected }
}

/// Reads the options of a caller. NULL stands for the defaults.
///
/// # Safety
/// `options` must be NULL or point to a `size`, followed by as many bytes as `size` says.
pub(crate) unsafe fn read(options: *const FormworkOptions) -> Result<(SchemaOptions, Limits), Failure> {
    if options.is_null() {
        return Ok((SchemaOptions::default(), Limits::default()));
    }
    if !options.is_aligned() {
        let align = align_of::<FormworkOptions>();
        return Err(Failure::Misaligned { argument: "options".to_owned(), align });
    }
    // SAFETY: every version of the struct begins with its size.
    let size = unsafe { options.cast::<usize>().read() };
    if size != size_of::<FormworkOptions>() {
        let expected = "the size of FormworkOptions";
        return Err(unknown("size", size, expected));
    }
    // SAFETY: the struct is as large as this library's.
    let options = unsafe { options.read() };
    if options.reserved != 0 {
        return Err(unknown("reserved", options.reserved as usize, "0"));
    }
    Ok((options.schema_options()?, options.limits()?))
}
