// A thin layer over formwork.h for .NET, Mono and Unity. It needs C# 7.3 and no unsafe code.
//
// Every object is disposable, and may be disposed in any order. A Matcher must be used by one thread at a
// time. All other objects may be shared.

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

namespace Formwork
{
    /// <summary>Error of the library, for example a schema that cannot be enforced.</summary>
    public sealed class FormworkException : Exception
    {
        internal FormworkException(int status, string message, string pointer, string keyword, int line, int column)
            : base(message)
        {
            Status = status;
            Pointer = pointer;
            Keyword = keyword;
            Line = line;
            Column = column;
        }

        /// <summary>The status: one of FORMWORK_STATUS_… of the header.</summary>
        public int Status { get; }

        /// <summary>JSON pointer of the place in a schema, or null.</summary>
        public string Pointer { get; }

        /// <summary>Keyword of the schema, or null.</summary>
        public string Keyword { get; }

        /// <summary>Line in a text, starting at 1, or 0.</summary>
        public int Line { get; }

        /// <summary>Column in a text, starting at 1, or 0.</summary>
        public int Column { get; }
    }

    /// <summary>All tokens of a model with their bytes.</summary>
    public sealed class Vocabulary : IDisposable
    {
        internal readonly VocabularyHandle Handle;

        internal Vocabulary(IntPtr handle)
        {
            Handle = new VocabularyHandle(handle);
        }

        /// <summary>
        /// Creates a vocabulary from the bytes that each token adds to the output. A token without bytes is a
        /// control token. The tokens <paramref name="ends"/> end an output.
        /// </summary>
        public Vocabulary(IReadOnlyList<byte[]> tokens, params uint[] ends)
        {
            var all = new List<byte>();
            foreach (var bytes in tokens)
            {
                all.AddRange(bytes);
            }
            var pinned = GCHandle.Alloc(all.ToArray(), GCHandleType.Pinned);
            try
            {
                var list = new NativeToken[tokens.Count];
                var start = pinned.AddrOfPinnedObject();
                for (var index = 0; index < list.Length; index++)
                {
                    var length = tokens[index].Length;
                    list[index].Data = start;
                    list[index].Length = (UIntPtr)length;
                    list[index].Kind = length == 0 ? Native.ControlToken : Native.TextToken;
                    start += length;
                }
                IntPtr handle = IntPtr.Zero, error = IntPtr.Zero;
                var counts = new[] { (UIntPtr)list.Length, (UIntPtr)ends.Length };
                Native.Check(
                    Native.formwork_vocabulary_new(list, counts[0], ends, counts[1], ref handle, ref error), error);
                Handle = new VocabularyHandle(handle);
            }
            finally
            {
                pinned.Free();
            }
        }

        /// <summary>Number of tokens.</summary>
        public int Count => (int)Native.formwork_vocabulary_len(Handle);

        /// <summary>Number of 32-bit words of a mask.</summary>
        public int MaskWords => (int)Native.formwork_vocabulary_mask_words(Handle);

        public void Dispose() => Handle.Dispose();
    }

    /// <summary>Converts text to tokens and back.</summary>
    public sealed class Tokenizer : IDisposable
    {
        internal readonly TokenizerHandle Handle;

        /// <summary>Creates a tokenizer from the contents of a tokenizer.json.</summary>
        public Tokenizer(byte[] json, params uint[] ends)
        {
            IntPtr handle = IntPtr.Zero, error = IntPtr.Zero;
            var counts = new[] { (UIntPtr)json.Length, (UIntPtr)ends.Length };
            Native.Check(
                Native.formwork_tokenizer_from_json(json, counts[0], ends, counts[1], ref handle, ref error), error);
            Handle = new TokenizerHandle(handle);
        }

        /// <summary>Returns the vocabulary as an object of its own.</summary>
        public Vocabulary Vocabulary()
        {
            IntPtr handle = IntPtr.Zero, error = IntPtr.Zero;
            Native.Check(Native.formwork_tokenizer_vocabulary(Handle, ref handle, ref error), error);
            return new Vocabulary(handle);
        }

        /// <summary>Encodes a text. The flags are FORMWORK_ENCODE_… of the header.</summary>
        public uint[] Encode(string text, uint flags = 0)
        {
            var bytes = Encoding.UTF8.GetBytes(text);
            var tokens = default(NativeArray);
            var error = IntPtr.Zero;
            Native.Check(
                Native.formwork_tokenizer_encode(Handle, bytes, (UIntPtr)bytes.Length, flags, ref tokens, ref error),
                error);
            return Native.TakeTokens(ref tokens);
        }

        /// <summary>Decodes tokens to bytes, which can end inside a character.</summary>
        public byte[] Decode(uint[] tokens, uint flags = 0)
        {
            var bytes = default(NativeArray);
            var error = IntPtr.Zero;
            Native.Check(
                Native.formwork_tokenizer_decode(Handle, tokens, (UIntPtr)tokens.Length, flags, ref bytes, ref error),
                error);
            return Native.TakeBytes(ref bytes);
        }

        public void Dispose() => Handle.Dispose();
    }

    /// <summary>A compiled grammar, with the default options.</summary>
    public sealed class Grammar : IDisposable
    {
        internal readonly GrammarHandle Handle;

        private Grammar(NativeCompile compile, string source)
        {
            var bytes = Encoding.UTF8.GetBytes(source);
            IntPtr handle = IntPtr.Zero, error = IntPtr.Zero;
            Native.Check(compile(bytes, (UIntPtr)bytes.Length, IntPtr.Zero, ref handle, ref error), error);
            Handle = new GrammarHandle(handle);
        }

        public static Grammar JsonSchema(string schema) => new Grammar(Native.formwork_grammar_json_schema, schema);

        public static Grammar Gbnf(string source) => new Grammar(Native.formwork_grammar_gbnf, source);

        public static Grammar Lark(string source) => new Grammar(Native.formwork_grammar_lark, source);

        public static Grammar Regex(string pattern) => new Grammar(Native.formwork_grammar_regex, pattern);

        public static Grammar StructuralTags(string json) =>
            new Grammar(Native.formwork_grammar_structural_tags, json);

        /// <summary>Reports whether the bytes are a complete output.</summary>
        public bool Accepts(byte[] bytes)
        {
            byte accepted = 0;
            var error = IntPtr.Zero;
            Native.Check(
                Native.formwork_grammar_accepts(Handle, bytes, (UIntPtr)bytes.Length, ref accepted, ref error), error);
            return accepted != 0;
        }

        public void Dispose() => Handle.Dispose();
    }

    /// <summary>A grammar bound to a vocabulary, with the caches that its matchers share.</summary>
    public sealed class Constraint : IDisposable
    {
        internal readonly ConstraintHandle Handle;
        internal readonly int MaskWords;

        public Constraint(Grammar grammar, Vocabulary vocabulary)
        {
            IntPtr handle = IntPtr.Zero, error = IntPtr.Zero;
            Native.Check(
                Native.formwork_constraint_new(grammar.Handle, vocabulary.Handle, ref handle, ref error), error);
            Handle = new ConstraintHandle(handle);
            MaskWords = vocabulary.MaskWords;
        }

        public void Dispose() => Handle.Dispose();
    }

    /// <summary>Follows one output, token by token. Must be used by one thread at a time.</summary>
    public sealed class Matcher : IDisposable
    {
        private readonly MatcherHandle handle;
        private readonly uint[] words;

        public Matcher(Constraint constraint)
        {
            IntPtr result = IntPtr.Zero, error = IntPtr.Zero;
            Native.Check(Native.formwork_matcher_new(constraint.Handle, ref result, ref error), error);
            handle = new MatcherHandle(result);
            words = new uint[constraint.MaskWords];
        }

        /// <summary>
        /// Sets the logits of all tokens to minus infinity that are not allowed, or after which the output
        /// could not be complete within <paramref name="remaining"/> tokens. Returns the number of allowed
        /// tokens.
        /// </summary>
        public int MaskLogits(float[] logits, int remaining)
        {
            UIntPtr allowed = UIntPtr.Zero;
            var error = IntPtr.Zero;
            Native.Check(
                Native.formwork_matcher_mask_within(
                    handle, (UIntPtr)remaining, words, (UIntPtr)words.Length, ref allowed, ref error),
                error);
            for (var token = 0; token < logits.Length; token++)
            {
                if (token / 32 >= words.Length || (words[token / 32] >> (token % 32) & 1) == 0)
                {
                    logits[token] = float.NegativeInfinity;
                }
            }
            return (int)allowed;
        }

        /// <summary>Appends a token.</summary>
        public void Commit(uint token)
        {
            var error = IntPtr.Zero;
            Native.Check(Native.formwork_matcher_commit(handle, token, ref error), error);
        }

        /// <summary>Removes the last tokens.</summary>
        public void Rollback(int count)
        {
            var error = IntPtr.Zero;
            Native.Check(Native.formwork_matcher_rollback(handle, (UIntPtr)count, ref error), error);
        }

        /// <summary>True if the output is finished.</summary>
        public bool Complete
        {
            get
            {
                byte complete = 0;
                var error = IntPtr.Zero;
                Native.Check(Native.formwork_matcher_complete(handle, ref complete, ref error), error);
                return complete != 0;
            }
        }

        /// <summary>Number of tokens that suffices to complete the output.</summary>
        public int ClosingTokens
        {
            get
            {
                var tokens = UIntPtr.Zero;
                var error = IntPtr.Zero;
                Native.Check(Native.formwork_matcher_closing_tokens(handle, ref tokens, ref error), error);
                return (int)tokens;
            }
        }

        /// <summary>Returns the bytes with which every completion starts.</summary>
        public byte[] ForcedBytes()
        {
            var bytes = default(NativeArray);
            var error = IntPtr.Zero;
            Native.Check(Native.formwork_matcher_forced_bytes(handle, ref bytes, ref error), error);
            return Native.TakeBytes(ref bytes);
        }

        public void Dispose() => handle.Dispose();
    }
}
