// Writes llama.cpp's logits along given texts, for comparison with another engine.
//
//     logits MODEL TEXTS ROWS [f32]
//
// TEXTS has a line for each text: the number of tokens of the prompt, and then all token ids. The prompt is read at once,
// and the tokens after it one by one. ROWS gets the logits after the prompt and after each later token but the last, as
// consecutive floats. With `f32`, keys and values have 32 bits and attention is computed as written.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

enum { CONTEXT = 512, THREADS = 2 };

static void fail(const char *what) {
    fprintf(stderr, "logits: %s\n", what);
    exit(1);
}

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int count, char **arguments) {
    if (count < 4) fail("expected MODEL TEXTS ROWS [f32]");
    llama_log_set(quiet, NULL);
    struct llama_model_params model_options = llama_model_default_params();
    model_options.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(arguments[1], model_options);
    if (!model) fail("the model cannot be loaded");
    struct llama_context_params options = llama_context_default_params();
    options.n_ctx = options.n_batch = options.n_ubatch = CONTEXT;
    options.n_threads = options.n_threads_batch = THREADS;
    if (count > 4) {
        options.type_k = options.type_v = GGML_TYPE_F32;
        options.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    }
    struct llama_context *context = llama_init_from_model(model, options);
    if (!context) fail("the context cannot be made");
    int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    FILE *texts = fopen(arguments[2], "r"), *rows = fopen(arguments[3], "wb");
    if (!texts || !rows) fail("a file cannot be opened");
    static char line[1 << 16];
    while (fgets(line, sizeof line, texts)) {
        static llama_token tokens[CONTEXT];
        int len = 0;
        char *at = line, *end;
        long prompt = strtol(at, &end, 10);
        for (at = end; len < CONTEXT; at = end) {
            long token = strtol(at, &end, 10);
            if (end == at) break;
            tokens[len++] = (llama_token)token;
        }
        if (prompt < 1 || prompt >= len) fail("a text needs a prompt and tokens after it");
        llama_memory_clear(llama_get_memory(context), true);
        for (int read = 0; read < len - 1;) {
            int now = read == 0 ? (int)prompt : 1;
            if (llama_decode(context, llama_batch_get_one(tokens + read, now))) fail("a pass failed");
            read += now;
            fwrite(llama_get_logits_ith(context, -1), sizeof(float), vocabulary, rows);
        }
    }
    fclose(rows);
    llama_free(context);
    llama_model_free(model);
    return 0;
}
