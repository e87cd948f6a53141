//! Loads grammars, tokenizers and engines that the command line names.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail, ensure};
use formwork_engine::prompt::Shape;
use formwork_engine::{Engine, EngineHandle, EngineOptions};
use formwork_fields::{Definition, Format, TemplateOptions};
use formwork_grammar::{Formats, Grammar, Guide, Layout, Limits, Order, Part, SchemaOptions, Undeclared};
use formwork_lm::ChatTemplate;
use formwork_model::hub::{Hub, HubOptions, LocalModel, TerminalProgress};
use formwork_model::template::JinjaTemplate;
use formwork_model::{Checkpoint, Device, Model, OpenOptions};
use formwork_protocol::config::LOCAL_PROVIDER;
use formwork_vocab::{TokenId, TokenKind, Tokenizer, Vocabulary};
use serde_json::Value;

use crate::args::{
    DefinitionFormatArg, FormatsArg, LayoutArg, OrderArg, ProfileArg, SchemaArgs, ShapeArgs, TokenizerArgs,
    UndeclaredArg,
};
use crate::config;
use crate::files::{read_input_text, read_option, read_schema_option, read_text, without_mark};
use crate::lora::{Adapter, LoraArg};
use crate::memory;
use crate::remotes;

/// A shape that the output must match, read and parsed.
pub(crate) enum ShapeSource {
    Part(Part),
    Fields { definition: Box<Definition>, template: String },
}

impl ShapeSource {
    pub(crate) fn read(args: &ShapeArgs) -> Result<Option<Self>> {
        let part = if let Some(path) = &args.schema {
            Part::Json(read_schema_option(path)?.into())
        } else if let Some(path) = &args.gbnf {
            Part::Gbnf(read_option("--gbnf", path)?)
        } else if let Some(path) = &args.lark {
            Part::Lark(read_option("--lark", path)?)
        } else if let Some(path) = &args.fields {
            let definition = Box::new(read_definition(Some("--fields"), path, None, "")?);
            // The guide already applies the weights, so the prompt omits them.
            let template = definition.template_with(TemplateOptions { shares: false });
            return Ok(Some(Self::Fields { template, definition }));
        } else if let Some(pattern) = &args.regex {
            Part::Regex(pattern.clone())
        } else if !args.choice.is_empty() {
            Part::Choices(args.choice.clone())
        } else if args.json_object {
            Part::JsonObject
        } else {
            return Ok(None);
        };
        Ok(Some(Self::Part(part)))
    }

    /// Returns the description of the shape for the prompt.
    pub(crate) fn shape(&self) -> Option<Shape<'_>> {
        match self {
            Self::Part(part) => Shape::of(part),
            Self::Fields { template, .. } => Some(Shape::Template(template)),
        }
    }

    /// Returns the guide that makes some outputs more likely than others, for example field
    /// weights.
    pub(crate) fn guide(&self, vocabulary: &Arc<Vocabulary>) -> Option<Arc<dyn Guide>> {
        match self {
            Self::Fields { definition, .. } => Some(Arc::new(definition.weights(vocabulary)?)),
            Self::Part(_) => None,
        }
    }

    /// Returns true if the outputs are JSON text.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Part(part) => part.is_json(),
            Self::Fields { .. } => true,
        }
    }

    /// Compiles the grammar; errors name the source in `place`.
    pub(crate) fn compile(
        &self,
        place: &ShapeArgs,
        profile: ProfileArg,
        schema: &SchemaArgs,
    ) -> Result<Grammar> {
        let limits = Limits::default();
        let options = schema_options(profile, schema);
        let remotes = remotes::read(&schema.remote)?;
        let grammar = match self {
            Self::Part(part) => Grammar::of_parts_with_remotes(part, &remotes, &options, &limits),
            Self::Fields { definition, .. } => definition.grammar(&limits),
        };
        let grammar = grammar.map_err(|error| {
            let hint =
                |uri| format!("; pass it with --remote {uri}=FILE, or its folder with --remote FOLDER");
            let hint = error.missing_document().filter(|_| place.schema.is_some()).map(hint);
            let excerpt = error.excerpt().map(|excerpt| format!("\n{excerpt}"));
            let excerpt = hint.or(excerpt).unwrap_or_default();
            let files = [&place.schema, &place.gbnf, &place.lark, &place.fields];
            match files.into_iter().flatten().next() {
                Some(path) => anyhow::anyhow!("{}: {error}{excerpt}", path.display()),
                None => anyhow::anyhow!("{error}{excerpt}"),
            }
        })?;
        for warning in grammar.warnings() {
            eprintln!("formwork: warning: {warning}");
        }
        Ok(grammar)
    }
}

pub(crate) fn schema_options(profile: ProfileArg, args: &SchemaArgs) -> SchemaOptions {
    let formats = match args.formats {
        FormatsArg::Assert => Formats::Assert,
        FormatsArg::Annotate => Formats::Annotate,
    };
    if profile == ProfileArg::Accept {
        return SchemaOptions { formats, ..SchemaOptions::accept() };
    }
    let layout = match args.layout {
        LayoutArg::Spaced => Layout::Spaced,
        LayoutArg::Compact => Layout::Compact,
        LayoutArg::Pretty => Layout::Pretty,
        LayoutArg::Flexible => Layout::Flexible,
        LayoutArg::Inside => Layout::Inside,
    };
    let order = match args.order {
        OrderArg::Declared => Order::Declared,
        OrderArg::Any => Order::Any,
    };
    let undeclared = match args.undeclared {
        UndeclaredArg::Omit => Undeclared::Omit,
        UndeclaredArg::Allow => Undeclared::Allow,
    };
    SchemaOptions { layout, order, formats, undeclared, ..SchemaOptions::default() }
}

/// A model that is ready to generate.
pub(crate) struct Loaded {
    pub(crate) engine: EngineHandle,
    pub(crate) template: Arc<dyn ChatTemplate>,
    pub(crate) name: String,
}

pub(crate) fn hub() -> Hub {
    Hub::new(HubOptions::from_variables(|name| std::env::var_os(name)))
}

/// Returns the local path of a model, and downloads the model if necessary. A name in `[models]` of
/// `./formwork.toml` stands for the local model of its entry.
pub(crate) fn resolve(model: &str) -> Result<LocalModel> {
    let mut progress = TerminalProgress::new(std::io::stderr().is_terminal());
    let named = named_in_config(model)?;
    Ok(hub().resolve(named.as_deref().unwrap_or(model), &mut progress)?)
}

/// Returns the local model that `name` stands for in the configuration, or `None` if there is no such
/// name.
fn named_in_config(name: &str) -> Result<Option<String>> {
    // Paths and hub ids are never names of the configuration.
    if name.contains(['/', '\\']) || Path::new(name).exists() {
        return Ok(None);
    }
    let file = config::load(None)?;
    let Some(model) = file.config.models.get(name) else { return Ok(None) };
    if model.provider == LOCAL_PROVIDER {
        return Ok(Some(model.model.clone()));
    }
    bail!(
        "`{name}` in {} is a model of the provider `{}`; this command needs a local model",
        config::FILE,
        model.provider
    )
}

/// Opens a model. Refuses a model or a context for which not enough memory is free. Says so if the
/// context is shorter or would be longer than the one that the model was trained for.
pub(crate) fn open(path: &Path, how: OpenOptions) -> Result<Model> {
    let how = OpenOptions { memory: how.memory.or_else(memory::free), ..how };
    if let Some(threads) = how.threads {
        // The global pool runs candle's operations and the loading of models. It is built once, so
        // all models of a process share the same number of threads.
        rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global().ok();
    }
    let model = Model::open(path, how)?;
    let (context, trained) = (model.context_len(), model.spec().map(|spec| spec.context));
    match how.context {
        Some(wanted) if wanted > context => eprintln!(
            "formwork: warning: --ctx {wanted} exceeds the model's trained context length of {context} tokens"
        ),
        None if trained.is_some_and(|trained| context < trained) => eprintln!(
            "formwork: warning: the context is {context} tokens, because the memory that is free is not \
             enough for the trained {}",
            trained.unwrap_or_default()
        ),
        _ => {}
    }
    Ok(model)
}

/// Options for opening a model for an engine.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) how: OpenOptions,
    /// File or folder of the draft model.
    pub(crate) draft: Option<PathBuf>,
    /// Chat template to use instead of the model's own.
    pub(crate) template: Option<TemplateFile>,
    pub(crate) adapters: Vec<Adapter>,
}

/// A file with a chat template.
#[derive(Clone)]
pub(crate) struct TemplateFile {
    path: PathBuf,
    source: String,
}

impl TemplateFile {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), source: read_option("--chat-template", path)? })
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Compiles the template. `now` is the time for templates that write the date; with `None`, the date is
    /// fixed.
    pub(crate) fn compile(&self, tokenizer: &Tokenizer, now: Option<SystemTime>) -> Result<JinjaTemplate> {
        let template = JinjaTemplate::for_tokenizer(&self.source, tokenizer);
        let template = template.with_context(|| format!("--chat-template: {}", self.path.display()))?;
        Ok(match now {
            Some(now) => template.with_now(now),
            None => template,
        })
    }
}

/// Resolves and opens a model and starts its engine.
pub(crate) fn load(model: &str, opening: Opening, options: EngineOptions) -> Result<Loaded> {
    load_with(model, opening, options, None)
}

/// Does the same as [`load`], with the adapter of all requests.
pub(crate) fn load_with(
    model: &str,
    mut opening: Opening,
    options: EngineOptions,
    adapter: Option<&LoraArg>,
) -> Result<Loaded> {
    opening.adapters.extend(adapter.map(LoraArg::open).transpose()?);
    let local = resolve(model)?;
    let (engine, template) = start(&local.path, &opening, options)?;
    let Some(adapter) = opening.adapters.first() else {
        return Ok(Loaded { engine, template, name: local.name });
    };
    let name = format!("{}:{}", local.name, adapter.name);
    let engine = engine.with_adapter(&adapter.name).context("the engine has no adapter")?;
    Ok(Loaded { engine, template, name })
}

/// Opens the model in a file or folder, adds the adapters and starts its engine.
pub(crate) fn start(
    path: &Path,
    opening: &Opening,
    options: EngineOptions,
) -> Result<(EngineHandle, Arc<dyn ChatTemplate>)> {
    let mut opening = opening.clone();
    if !opening.adapters.is_empty() && opening.how.device == Device::Auto {
        // Only the CPU computes adapters.
        opening.how.device = Device::Cpu;
    }
    let (mut model, draft) = open_both(path, &opening, options.speculate != Some(0))?;
    opening.adapters.iter().try_for_each(|adapter| adapter.add_to(&mut model))?;
    let tokenizer = Arc::new(model.tokenizer()?);
    if opening.template.is_none() && model.chat_template().is_none() && generates(&model) {
        eprintln!(
            "formwork: warning: {} has no chat template, so messages are joined without roles; pass one with \
             --chat-template FILE",
            path.display()
        );
    }
    let now = Some(SystemTime::now());
    let template: Arc<dyn ChatTemplate> = match &opening.template {
        Some(file) => Arc::new(file.compile(&tokenizer, now)?),
        None => model
            .compile_template(&tokenizer, now)
            .with_context(|| format!("{}: tokenizer.chat_template", path.display()))?,
    };
    let model = model.language_model();
    if let Some(draft) = &draft {
        check_draft(draft, &tokenizer)?;
        ensure!(model.can_fork(), "--draft: {} cannot check drafts", path.display());
    }
    let draft = draft.map(|draft| draft.language_model());
    Ok((Engine::start_with_draft(model, draft, tokenizer, options), template))
}

/// Reports whether a model writes text.
fn generates(model: &Model) -> bool {
    model.spec().is_none_or(|spec| spec.abilities.generates)
}

/// Opens a model and its draft model, which share the memory that is free. Without a draft model, the
/// model's own head drafts if `drafts` is true.
fn open_both(path: &Path, opening: &Opening, drafts: bool) -> Result<(Model, Option<Model>)> {
    let how = opening.how;
    let Some(draft) = &opening.draft else {
        return Ok((open(path, OpenOptions { draft_head: drafts, ..how })?, None));
    };
    let memory = memory::beside(path, draft, how)?;
    let model = open(path, OpenOptions { memory, ..how })?;
    // The draft model drafts up to the end of the large model's context.
    let context = Some(model.context_len());
    let own =
        OpenOptions { context, quantize: None, memory: None, gpu_layers: None, cpu_experts: None, ..how };
    let draft = Model::open(draft, own);
    Ok((model, Some(draft.context("--draft")?)))
}

/// Checks that a draft model writes text with the vocabulary of `tokenizer`.
fn check_draft(draft: &Model, tokenizer: &Tokenizer) -> Result<()> {
    let name = draft.name();
    ensure!(generates(draft), "--draft: {name} does not write text");
    let (own, large) = (draft.tokenizer()?, tokenizer.vocabulary());
    let own = own.vocabulary();
    // Models of a family differ in the names and in the number of unused tokens.
    let is_text = |vocabulary: &Vocabulary, token| vocabulary.kind(token) == TokenKind::Text;
    let differs = |&token: &TokenId| {
        (is_text(own, token) || is_text(large, token)) && own.bytes(token) != large.bytes(token)
    };
    let mut shared = own.ids().take(large.len());
    if let Some(token) = shared.find(differs) {
        let [own, large] = [own, large].map(|vocabulary| String::from_utf8_lossy(vocabulary.bytes(token)));
        bail!(
            "--draft: {name} has another vocabulary than the model: token {token} is {own:?} instead of {large:?}"
        );
    }
    let [fewer, more] = [own.len().min(large.len()), own.len().max(large.len())];
    ensure!(
        fewer >= more - more / 10,
        "--draft: {name} has another vocabulary than the model: {} tokens instead of {}",
        own.len(),
        large.len()
    );
    Ok(())
}

/// Loads the tokenizer that the command line names, if any.
pub(crate) fn tokenizer(args: &TokenizerArgs) -> Result<Option<Tokenizer>> {
    let named = args.tokenizer.as_deref().map(|name| ("--tokenizer", name));
    let named = named.or_else(|| args.model.as_deref().map(|name| ("--model", name)));
    named.map(|(option, name)| tokenizer_of(option, name)).transpose()
}

/// Loads the tokenizer from a `tokenizer.json` file or from a model, as named by `option`.
pub(crate) fn tokenizer_of(option: &'static str, name: &str) -> Result<Tokenizer> {
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "json") {
        let json = std::fs::read(path).with_context(|| format!("{option}: {name}"))?;
        return Tokenizer::from_json(&json).with_context(|| name.to_owned());
    }
    Ok(Checkpoint::open(resolve(name).context(option)?.path)?.tokenizer()?)
}

/// Reads the JSON Schema of `--schema` or the schema of the fields of `--fields`. Returns it with its
/// file, or `None` if neither is given.
pub(crate) fn read_schema(schema: Option<&Path>, fields: Option<&Path>) -> Result<Option<(Value, PathBuf)>> {
    Ok(match (schema, fields) {
        (Some(path), _) => {
            let read = read_schema_option(path);
            let is_of_fields = matches!(Format::of(path), Some(Format::Yaml | Format::Toml | Format::CSharp));
            let hint = || anyhow!("--schema requires JSON; a definition of fields is given with --fields");
            let read = read.map_err(|error| if is_of_fields { error.context(hint()) } else { error });
            Some((read?, path.to_owned()))
        }
        (None, Some(path)) => {
            Some((read_definition(Some("--fields"), path, None, "")?.schema(), path.to_owned()))
        }
        (None, None) => None,
    })
}

/// Reads a field definition from a file, or from standard input for `-`. `option` is the option that
/// names the file, if any. The error for an unknown extension ends with `besides`, which names other
/// ways to state the format.
pub(crate) fn read_definition(
    option: Option<&'static str>,
    path: &Path,
    format: Option<DefinitionFormatArg>,
    besides: &str,
) -> Result<Definition> {
    let is_input = path == Path::new("-");
    let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
    let text = match option {
        _ if is_input => without_mark(read_input_text(None)?),
        Some(option) => read_option(option, path)?,
        None => read_text(path)?,
    };
    let format = match format {
        Some(DefinitionFormatArg::Json) => Format::Json,
        Some(DefinitionFormatArg::Yaml) => Format::Yaml,
        Some(DefinitionFormatArg::Toml) => Format::Toml,
        Some(DefinitionFormatArg::Csharp) => Format::CSharp,
        Some(DefinitionFormatArg::Schema) => Format::JsonSchema,
        None => match Format::of(path) {
            Some(format) => format,
            None if path.extension().is_some() => {
                bail!("{name}: unknown extension; expected .json, .yaml, .yml, .toml or .cs{besides}")
            }
            None if text.trim_start().starts_with('{') => Format::Json,
            None => Format::Yaml,
        },
    };
    Definition::parse(&text, format).with_context(|| name).map_err(|error| {
        let is_hinted = option == Some("--fields") && is_schema(&text);
        if is_hinted {
            error.context("the file is a JSON Schema, which is given with --schema")
        } else {
            error
        }
    })
}

/// Reports whether a text is a JSON Schema of an object instead of a field definition.
fn is_schema(text: &str) -> bool {
    let value: Value = formwork_json::from_str(text).unwrap_or_default();
    value.get("$schema").is_some() || value.get("properties").is_some()
}

#[cfg(test)]
mod tests {
    use formwork_vocab::Token;

    use super::*;

    #[test]
    fn a_template_of_a_file_is_compiled_for_the_tokenizer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.jinja");
        let compiled = |source: &str| {
            std::fs::write(&path, source).unwrap();
            let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
            let vocabulary = Vocabulary::new(vec![end], vec![TokenId(0)]).unwrap();
            TemplateFile::read(&path)?.compile(&Tokenizer::greedy(vocabulary), None)
        };
        let input = formwork_lm::ChatInput::default();
        assert_eq!(compiled("\u{feff}a{{ eos_token }}").unwrap().render(&input).unwrap(), "a</s>");
        let error = format!("{:#}", compiled("{% if %}").err().unwrap());
        assert!(error.starts_with("--chat-template: ") && error.contains("own.jinja"), "{error}");
        let missing = TemplateFile::read(Path::new("missing.jinja")).err().unwrap();
        assert!(format!("{missing:#}").starts_with("--chat-template: missing.jinja"));
    }
}
