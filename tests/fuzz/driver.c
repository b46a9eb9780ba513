/* SPDX-License-Identifier: MIT */
/* driver.c - runs a fuzz target on its corpus, and on mutations of it.
 *
 *     fuzz_uri [--seed N] [--runs N] FILE_OR_DIRECTORY...
 *
 * Run k of seed s is always the same input, and whatever ends the program shows the input that it died of, so a failure
 * can be repeated and put into the corpus. There is no feedback from the code that was reached: this finds what is near
 * the corpus, quickly; libFuzzer finds the rest. */
#include "core/base/entropy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/wait.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_MAX = 4096, CORPUS_MAX = 512, DEFAULT_RUNS = 100000 };

struct input {
    uint8_t data[INPUT_MAX];
    size_t size;
};

static struct {
    struct input *inputs[CORPUS_MAX];
    size_t count;
} corpus;

/* ---- the input under test, shown when the program dies ---------------------------------------------------------- */

static struct {
    const struct input *input;
    char name[128];
} current;

static void show_current(void)
{
    if (current.input == NULL)
        return;
    fprintf(stderr, "tests/fuzz: died of %s, %zu bytes:\n", current.name, current.input->size);
    for (size_t i = 0; i < current.input->size; i++)
        fprintf(stderr, "\\x%02x", current.input->data[i]);
    fputc('\n', stderr);
    current.input = NULL;
}

static void on_death(int signo)
{
    show_current();
    signal(signo, SIG_DFL);
    raise(signo);
}

/* The sanitizers end the program without a signal, but offer this. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void watch_for_death(void)
{
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(show_current);
    signal(SIGABRT, on_death);
}

/* From a block of its exact size, so that a read beyond the end is seen. */
static void try_input(const struct input *input)
{
    uint8_t *data = must_alloc(input->size + 1);

    current.input = input;
    if ((data = must_realloc(data, input->size == 0 ? 1 : input->size)) != NULL)
        memcpy(data, input->data, input->size);
    (void)LLVMFuzzerTestOneInput(data, input->size);
    free(data);
    current.input = NULL;
}

/* ---- the corpus ------------------------------------------------------------------------------------------------- */

static void load_file(const char *path)
{
    struct input *input = must_alloc(sizeof *input);
    FILE *f = fopen(path, "rb");

    if (f == NULL || corpus.count == CORPUS_MAX)
        die("cannot take %s into the corpus", path);
    input->size = fread(input->data, 1, sizeof input->data, f);
    fclose(f);
    corpus.inputs[corpus.count++] = input;
    snprintf(current.name, sizeof current.name, "%s", path);
    try_input(input);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* whatever the locale */
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void load(const char *path)
{
    struct dirent **entries = NULL;
    struct stat st;
    int count;

    if (stat(path, &st) != 0)
        die("there is no %s", path);
    if (!S_ISDIR(st.st_mode)) {
        load_file(path);
        return;
    }
    if ((count = scandir(path, &entries, is_visible, by_name)) < 0)
        die("cannot read %s", path);
    for (int i = 0; i < count; i++) {
        char *file = must_format("%s/%s", path, entries[i]->d_name);

        load_file(file);
        free(file);
        free(entries[i]);
    }
    free(entries);
}

static void unload(void)
{
    while (corpus.count > 0)
        free(corpus.inputs[--corpus.count]);
}

/* ---- mutations -------------------------------------------------------------------------------------------------- */

static size_t below(struct rdl__rand *rand, size_t bound)
{
    return (size_t)rdl__rand_below(rand, bound);
}

/* Bytes that mean something to somebody, or any. */
static uint8_t any_byte(struct rdl__rand *rand)
{
    static const char special[] = ":/?#[]@%&=+-.,{}\\ \t\r\n0123456789afAFxz\x7f\x80\xbf\xc2\xe2\xed\xf0\xf4\xff";

    return (uint8_t)(below(rand, 4) == 0 ? rdl__rand_next(rand) : (uint8_t)special[below(rand, sizeof special)]);
}

/* Room for `len` more bytes at `at`; what does not fit falls off the end. */
static size_t open_gap(struct input *in, size_t at, size_t len)
{
    size_t fits = len > INPUT_MAX - in->size ? INPUT_MAX - in->size : len;

    memmove(in->data + at + fits, in->data + at, in->size - at);
    in->size += fits;
    return fits;
}

static void insert_bytes(struct input *in, struct rdl__rand *rand)
{
    size_t at = below(rand, in->size + 1);
    size_t len = open_gap(in, at, 1 + below(rand, below(rand, 8) == 0 ? 200 : 4));
    uint8_t byte = any_byte(rand);
    int same = below(rand, 2) == 0;

    for (size_t i = 0; i < len; i++)
        in->data[at + i] = same ? byte : any_byte(rand);
}

static void remove_bytes(struct input *in, struct rdl__rand *rand)
{
    size_t at = below(rand, in->size + 1);
    size_t len = below(rand, in->size - at + 1);

    memmove(in->data + at, in->data + at + len, in->size - at - len);
    in->size -= len;
}

static void change_bytes(struct input *in, struct rdl__rand *rand)
{
    size_t at = below(rand, in->size + 1);
    size_t end = at + 1 + below(rand, 4);

    for (; at < end && at < in->size; at++)
        in->data[at] = any_byte(rand);
}

static void flip_bit(struct input *in, struct rdl__rand *rand)
{
    if (in->size != 0)
        in->data[below(rand, in->size)] ^= (uint8_t)(1U << below(rand, 8));
}

/* A piece of another input, or of itself. */
static void insert_piece(struct input *in, struct rdl__rand *rand)
{
    const struct input *from = corpus.inputs[below(rand, corpus.count)];
    size_t start = below(rand, from->size + 1);
    size_t at = below(rand, in->size + 1);
    size_t len = open_gap(in, at, below(rand, from->size - start + 1));

    memcpy(in->data + at, from->data + start, len);
}

static void mutate(struct input *in, struct rdl__rand *rand)
{
    static void (*const ways[])(struct input *, struct rdl__rand *) = {insert_bytes, remove_bytes, change_bytes,
                                                                       flip_bit, insert_piece};
    size_t steps = 1 + below(rand, 6);

    for (size_t i = 0; i < steps; i++)
        ways[below(rand, sizeof ways / sizeof *ways)](in, rand);
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static uint64_t number(const char *text)
{
    char *end = NULL;
    uint64_t value = text != NULL ? strtoull(text, &end, 0) : 0;

    if (end == NULL || end == text || *end != '\0')
        die("--seed and --runs take a number");
    return value;
}

int main(int argc, char **argv)
{
    static struct input input;
    uint64_t seed = 1, runs = DEFAULT_RUNS;

    watch_for_death();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = number(argv[++i]);
        else if (strcmp(argv[i], "--runs") == 0)
            runs = number(argv[++i]);
        else
            load(argv[i]);
    }
    if (corpus.count == 0)
        die("usage: %s [--seed N] [--runs N] FILE_OR_DIRECTORY...", argv[0]);
    printf("%zu inputs of the corpus, then %llu mutated ones of seed %llu\n", corpus.count, (unsigned long long)runs,
           (unsigned long long)seed);
    for (uint64_t run = 0; run < runs; run++) {
        struct rdl__rand rand = {.state = seed ^ run << 20};

        input = *corpus.inputs[below(&rand, corpus.count)];
        mutate(&input, &rand);
        snprintf(current.name, sizeof current.name, "run %llu", (unsigned long long)run);
        try_input(&input);
    }
    unload();
    printf("2 passed, 0 failed\n");
    return 0;
}
