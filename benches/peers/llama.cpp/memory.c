// Measures how fast this machine reads memory. Each thread sums its own part of 1 GiB. The argument
// is the number of threads. Prints the median and the best of 15 passes, in GB/s.
//
// Build it with `cc -O3 -march=native -pthread memory.c -o memory`.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { PASSES = 15, MOST_THREADS = 64 };
static const size_t WORDS = (1UL << 30) / sizeof(uint64_t);

struct part {
    const uint64_t *words;
    size_t count;
    uint64_t sum;
};

static void *read_part(void *argument) {
    struct part *part = argument;
    uint64_t sum = 0;
    for (size_t i = 0; i < part->count; i++) {
        sum += part->words[i];
    }
    part->sum = sum;
    return NULL;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: memory THREADS (1 to %d)\n", MOST_THREADS);
        return 2;
    }
    uint64_t *words = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    madvise(words, WORDS * sizeof *words, MADV_HUGEPAGE);
    for (size_t i = 0; i < WORDS; i++) {
        words[i] = i;
    }
    double rates[PASSES];
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        pthread_t handles[MOST_THREADS];
        struct part parts[MOST_THREADS];
        double start = seconds();
        for (int i = 0; i < threads; i++) {
            size_t first = WORDS / threads * i;
            parts[i] = (struct part){words + first, WORDS / threads, 0};
            if (pthread_create(&handles[i], NULL, read_part, &parts[i]) != 0) {
                return 1;
            }
        }
        for (int i = 0; i < threads; i++) {
            pthread_join(handles[i], NULL);
            sum += parts[i].sum;
        }
        rates[pass] = WORDS * sizeof *words / (seconds() - start) / 1e9;
    }
    qsort(rates, PASSES, sizeof *rates, ascending);
    printf("%d threads: %.1f GB/s, best %.1f (sum %lx)\n", threads, rates[PASSES / 2], rates[PASSES - 1], (long)sum);
    return 0;
}
