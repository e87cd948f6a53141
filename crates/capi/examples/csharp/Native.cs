// The functions of formwork.h that Formwork.cs uses.

using System;
using System.Runtime.InteropServices;
using System.Text;

namespace Formwork
{
    /// <summary>FormworkToken: a FormworkSlice and a kind.</summary>
    [StructLayout(LayoutKind.Sequential)]
    internal struct NativeToken
    {
        public IntPtr Data;
        public UIntPtr Length;
        public uint Kind;
    }

    /// <summary>FormworkBytes and FormworkTokens.</summary>
    [StructLayout(LayoutKind.Sequential)]
    internal struct NativeArray
    {
        public IntPtr Data;
        public UIntPtr Length;
    }

    /// <summary>A handle of the library. The runtime frees it at most once, and not during a call.</summary>
    internal abstract class NativeHandle : SafeHandle
    {
        protected NativeHandle(IntPtr value)
            : base(IntPtr.Zero, true)
        {
            SetHandle(value);
        }

        public override bool IsInvalid => handle == IntPtr.Zero;
    }

    internal sealed class VocabularyHandle : NativeHandle
    {
        internal VocabularyHandle(IntPtr value)
            : base(value)
        {
        }

        protected override bool ReleaseHandle()
        {
            Native.formwork_vocabulary_free(handle);
            return true;
        }
    }

    internal sealed class TokenizerHandle : NativeHandle
    {
        internal TokenizerHandle(IntPtr value)
            : base(value)
        {
        }

        protected override bool ReleaseHandle()
        {
            Native.formwork_tokenizer_free(handle);
            return true;
        }
    }

    internal sealed class GrammarHandle : NativeHandle
    {
        internal GrammarHandle(IntPtr value)
            : base(value)
        {
        }

        protected override bool ReleaseHandle()
        {
            Native.formwork_grammar_free(handle);
            return true;
        }
    }

    internal sealed class ConstraintHandle : NativeHandle
    {
        internal ConstraintHandle(IntPtr value)
            : base(value)
        {
        }

        protected override bool ReleaseHandle()
        {
            Native.formwork_constraint_free(handle);
            return true;
        }
    }

    internal sealed class MatcherHandle : NativeHandle
    {
        internal MatcherHandle(IntPtr value)
            : base(value)
        {
        }

        protected override bool ReleaseHandle()
        {
            Native.formwork_matcher_free(handle);
            return true;
        }
    }

    internal delegate int NativeCompile(
        byte[] source, UIntPtr length, IntPtr options, ref IntPtr grammar, ref IntPtr error);

    internal static class Native
    {
        internal const uint TextToken = 0;
        internal const uint ControlToken = 2;

        /// <summary>
        /// The runtime adds `lib`, `.so`, `.dll` or `.dylib`. In Unity on iOS, where the library is linked
        /// statically, the name is "__Internal".
        /// </summary>
        private const string Library = "formwork_capi";

        private const CallingConvention C = CallingConvention.Cdecl;

        /// <summary>Throws if the status is not FORMWORK_STATUS_OK, and frees the error.</summary>
        internal static void Check(int status, IntPtr error)
        {
            if (status == 0)
            {
                return;
            }
            var exception = new FormworkException(
                status,
                Text(formwork_error_message(error)),
                Text(formwork_error_pointer(error)),
                Text(formwork_error_keyword(error)),
                (int)formwork_error_line(error),
                (int)formwork_error_column(error));
            formwork_error_free(error);
            throw exception;
        }

        /// <summary>Copies bytes to an array, and frees them.</summary>
        internal static byte[] TakeBytes(ref NativeArray bytes)
        {
            var result = new byte[(int)bytes.Length];
            if (result.Length > 0)
            {
                Marshal.Copy(bytes.Data, result, 0, result.Length);
            }
            formwork_bytes_free(ref bytes);
            return result;
        }

        /// <summary>Copies tokens to an array, and frees them.</summary>
        internal static uint[] TakeTokens(ref NativeArray tokens)
        {
            var signed = new int[(int)tokens.Length];
            if (signed.Length > 0)
            {
                Marshal.Copy(tokens.Data, signed, 0, signed.Length);
            }
            formwork_tokens_free(ref tokens);
            return Array.ConvertAll(signed, token => unchecked((uint)token));
        }

        /// <summary>Copies a text that ends with NUL, and returns null for NULL.</summary>
        private static string Text(IntPtr start)
        {
            if (start == IntPtr.Zero)
            {
                return null;
            }
            var length = 0;
            while (Marshal.ReadByte(start, length) != 0)
            {
                length++;
            }
            var bytes = new byte[length];
            Marshal.Copy(start, bytes, 0, length);
            return Encoding.UTF8.GetString(bytes);
        }

        [DllImport(Library, CallingConvention = C)]
        internal static extern void formwork_bytes_free(ref NativeArray bytes);

        [DllImport(Library, CallingConvention = C)]
        internal static extern void formwork_tokens_free(ref NativeArray tokens);

        [DllImport(Library, CallingConvention = C)]
        private static extern IntPtr formwork_error_message(IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        private static extern IntPtr formwork_error_pointer(IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        private static extern IntPtr formwork_error_keyword(IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        private static extern UIntPtr formwork_error_line(IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        private static extern UIntPtr formwork_error_column(IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        private static extern void formwork_error_free(IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_vocabulary_new(
            [In] NativeToken[] tokens, UIntPtr count, uint[] ends, UIntPtr endCount, ref IntPtr vocabulary,
            ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern UIntPtr formwork_vocabulary_len(VocabularyHandle vocabulary);

        [DllImport(Library, CallingConvention = C)]
        internal static extern UIntPtr formwork_vocabulary_mask_words(VocabularyHandle vocabulary);

        [DllImport(Library, CallingConvention = C)]
        internal static extern void formwork_vocabulary_free(IntPtr vocabulary);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_tokenizer_from_json(
            byte[] json, UIntPtr length, uint[] ends, UIntPtr endCount, ref IntPtr tokenizer, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_tokenizer_vocabulary(
            TokenizerHandle tokenizer, ref IntPtr vocabulary, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_tokenizer_encode(
            TokenizerHandle tokenizer, byte[] text, UIntPtr length, uint flags, ref NativeArray tokens,
            ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_tokenizer_decode(
            TokenizerHandle tokenizer, uint[] tokens, UIntPtr count, uint flags, ref NativeArray bytes,
            ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern void formwork_tokenizer_free(IntPtr tokenizer);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_grammar_json_schema(
            byte[] source, UIntPtr length, IntPtr options, ref IntPtr grammar, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_grammar_gbnf(
            byte[] source, UIntPtr length, IntPtr options, ref IntPtr grammar, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_grammar_lark(
            byte[] source, UIntPtr length, IntPtr options, ref IntPtr grammar, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_grammar_regex(
            byte[] source, UIntPtr length, IntPtr options, ref IntPtr grammar, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_grammar_structural_tags(
            byte[] source, UIntPtr length, IntPtr options, ref IntPtr grammar, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_grammar_accepts(
            GrammarHandle grammar, byte[] bytes, UIntPtr length, ref byte accepted, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern void formwork_grammar_free(IntPtr grammar);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_constraint_new(
            GrammarHandle grammar, VocabularyHandle vocabulary, ref IntPtr constraint, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern void formwork_constraint_free(IntPtr constraint);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_matcher_new(
            ConstraintHandle constraint, ref IntPtr matcher, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_matcher_mask_within(
            MatcherHandle matcher, UIntPtr remaining, [Out] uint[] words, UIntPtr count, ref UIntPtr allowed,
            ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_matcher_commit(MatcherHandle matcher, uint token, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_matcher_rollback(
            MatcherHandle matcher, UIntPtr count, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_matcher_complete(
            MatcherHandle matcher, ref byte complete, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_matcher_closing_tokens(
            MatcherHandle matcher, ref UIntPtr tokens, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern int formwork_matcher_forced_bytes(
            MatcherHandle matcher, ref NativeArray bytes, ref IntPtr error);

        [DllImport(Library, CallingConvention = C)]
        internal static extern void formwork_matcher_free(IntPtr matcher);
    }
}
