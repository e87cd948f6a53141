/*
 * Compiles a JSON Schema, and writes an output token by token from the masks.
 *
 * The vocabulary has one token for each byte, and an end token. A random choice stands in for the model,
 * whose logits a real program would mask.
 *
 * Build the library, then this program, in the root of the repository:
 *
 *     cargo build --release -p formwork-capi
 *     cc -Icrates/capi/include crates/capi/examples/c/masks.c target/release/libformwork_capi.a \
 *         -lpthread -ldl -lm -o masks
 *
 * Or with the shared library:
 *
 *     cc -Icrates/capi/include crates/capi/examples/c/masks.c -Ltarget/release -lformwork_capi \
 *         -Wl,-rpath,target/release -o masks
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formwork.h"

enum { TOKENS = 257, END = 256, WORDS = (TOKENS + 31) / 32, BUDGET = 56 };

/* Prints the error of a failed call, and ends the program. */
static void check(FormworkStatus status, FormworkError *error)
{
    if (status != FORMWORK_STATUS_OK) {
        fprintf(stderr, "status %d: %s\n", (int)status, formwork_error_message(error));
        exit(1);
    }
}

static FormworkVocabulary *create_vocabulary(void)
{
    static uint8_t bytes[END];
    static const char end_spelling[] = "</s>";
    const uint32_t end = END;
    FormworkToken tokens[TOKENS];
    FormworkVocabulary *vocabulary;
    FormworkError *error;
    int token;

    for (token = 0; token < END; token++) {
        bytes[token] = (uint8_t)token;
        tokens[token].bytes.data = &bytes[token];
        tokens[token].bytes.length = 1;
        tokens[token].kind = FORMWORK_TOKEN_TEXT;
    }
    tokens[END].bytes.data = (const uint8_t *)end_spelling;
    tokens[END].bytes.length = strlen(end_spelling);
    tokens[END].kind = FORMWORK_TOKEN_CONTROL;
    check(formwork_vocabulary_new(tokens, TOKENS, &end, 1, &vocabulary, &error), error);
    return vocabulary;
}

/* Shows the error of a schema that is refused. */
static void show_error(void)
{
    const char *schema = "{\"properties\": {\"age\": {\"type\": \"integr\"}}}";
    FormworkGrammar *grammar;
    FormworkError *error;

    if (formwork_grammar_json_schema(schema, strlen(schema), NULL, &grammar, &error) == FORMWORK_STATUS_OK) {
        formwork_grammar_free(grammar);
        return;
    }
    printf("refused: %s\n", formwork_error_message(error));
    formwork_error_free(error);
}

/* Returns an allowed token. The model's choice would stand here. */
static uint32_t choose(const uint32_t *words, size_t allowed)
{
    static uint32_t random = 7;
    size_t skip;
    uint32_t token;

    random = random * 1664525u + 1013904223u;
    skip = (random >> 8) % allowed;
    for (token = 0; token < TOKENS; token++) {
        if ((words[token / 32] >> (token % 32) & 1) && skip-- == 0)
            break;
    }
    return token;
}

int main(void)
{
    const char *schema =
        "{\"type\": \"object\", \"properties\": {"
        "  \"name\": {\"type\": \"string\", \"pattern\": \"^[A-Z][a-z]{2,30}$\"},"
        "  \"class\": {\"enum\": [\"knight\", \"wizard\", \"thief\"]},"
        "  \"age\": {\"type\": \"integer\", \"minimum\": 18, \"maximum\": 99}"
        "}, \"required\": [\"name\", \"class\", \"age\"]}";
    FormworkVocabulary *vocabulary = create_vocabulary();
    FormworkGrammar *grammar;
    FormworkConstraint *constraint;
    FormworkMatcher *matcher;
    FormworkError *error;
    uint32_t words[WORDS];
    char output[BUDGET + 1];
    size_t length = 0;
    bool valid;

    printf("Formwork %s\n", formwork_version());
    show_error();

    check(formwork_grammar_json_schema(schema, strlen(schema), NULL, &grammar, &error), error);
    check(formwork_constraint_new(grammar, vocabulary, &constraint, &error), error);
    check(formwork_matcher_new(constraint, &matcher, &error), error);

    for (;;) {
        size_t allowed, allowed_in_time;
        uint32_t token;
        bool complete;

        check(formwork_matcher_complete(matcher, &complete, &error), error);
        if (complete)
            break;
        check(formwork_matcher_mask(matcher, words, WORDS, &allowed, &error), error);
        /* Of these tokens, take one after which the output still closes within the budget. */
        check(formwork_matcher_mask_within(matcher, BUDGET - length, words, WORDS, &allowed_in_time, &error),
              error);
        token = choose(words, allowed_in_time);
        printf("%2u: %3u allowed, %3u in time, chose '%c'\n", (unsigned)length, (unsigned)allowed,
               (unsigned)allowed_in_time, (int)token);
        check(formwork_matcher_commit(matcher, token, &error), error);
        output[length++] = (char)token;
    }
    output[length] = '\0';
    printf("output: %s\n", output);

    check(formwork_grammar_accepts(grammar, (const uint8_t *)output, length, &valid, &error), error);
    printf("valid: %s\n", valid ? "yes" : "no");

    /* Any order is right. */
    formwork_grammar_free(grammar);
    formwork_vocabulary_free(vocabulary);
    formwork_matcher_free(matcher);
    formwork_constraint_free(constraint);
    return valid ? 0 : 1;
}
