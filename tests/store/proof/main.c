/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: proof LAYER [--seconds N] [--seed N] [--life NAME] [--start NAME] [--fault NAME] [--at N]
 *        [--every N]
 *
 * LAYER: singles, pairs, weak. Without --seconds the whole layer runs. A violation is printed with
 * the options that reproduce it; the exit status is then 1.
 */
#include "runtime/base/array.h"
#include "tests/store/proof/proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    bool (*run)(const proof_options *options);
} layers[] = {{"singles", proof_singles}, {"pairs", proof_pairs}, {"weak", proof_weak}};

double proof_seconds(void) {
    static struct timespec start;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!start.tv_sec) start = now;
    return (double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec);
}

bool proof_chosen(const proof_options *options, const life_case *which) {
    return (!options->life || strcmp(options->life, which->life) == 0) &&
           (!options->start || strcmp(options->start, which->start) == 0);
}

uint64_t proof_random(uint64_t *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int usage(const char *what) {
    fprintf(stderr,
            "%s\nusage: proof singles|pairs|weak [--seconds N] [--seed N] [--life NAME] "
            "[--start NAME] [--fault NAME] [--at N] [--every N]\n",
            what);
    return 2;
}

int main(int argc, char **argv) {
    proof_options options = {.seed = 1};
    (void)proof_seconds();
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            options.seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--seed") == 0)
            options.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--life") == 0)
            options.life = argv[i + 1];
        else if (strcmp(argv[i], "--start") == 0)
            options.start = argv[i + 1];
        else if (strcmp(argv[i], "--fault") == 0)
            options.fault = argv[i + 1];
        else if (strcmp(argv[i], "--at") == 0)
            options.at = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--every") == 0)
            options.every = strtoull(argv[i + 1], NULL, 10);
        else
            return usage("unknown option");
    }
    if (argc % 2) return usage("an option without a value");
    for (size_t i = 0; argc > 1 && i < TSR_COUNT(layers); i++)
        if (strcmp(argv[1], layers[i].name) == 0) return layers[i].run(&options) ? 0 : 1;
    return usage("no such layer");
}
