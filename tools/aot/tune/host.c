/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/tune/host.h"

#include "runtime/base/hash/file.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* The name of the processor as Linux prints it; "unknown processor" without one. */
static const char *read_processor(tsr_arena *arena) {
    static const char key[] = "model name";
    char line[256];
    const char *name = NULL;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && !name && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        const char *text = colon + 1 + strspn(colon + 1, " \t");
        name = tsr_arena_strndup(arena, text, strcspn(text, "\n"));
    }
    if (file) fclose(file);
    return name ? name : "unknown processor";
}

static unsigned count_processors(void) {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
}

tsr_result tsr_tune_host_read(tsr_ctx *ctx, unsigned threads, tsr_arena *arena,
                              tsr_tune_host *out_host) {
    tsr_digest digest;
    char hex[TSR_DIGEST_HEX + 1];
    unsigned count = threads ? threads : count_processors();
    TRY(ctx, tsr_file_digest(ctx, "/proc/self/exe", &digest));
    tsr_digest_format(&digest, hex);
    *out_host =
        (tsr_tune_host){.machine = tsr_arena_printf(arena, "%s, %u thread%s", read_processor(arena),
                                                    count, count == 1 ? "" : "s"),
                        .compiler = TSR_VERSION_TEXT,
                        .runtime = tsr_arena_strndup(arena, hex, 16)};
    if (!out_host->machine || !out_host->runtime)
        FAIL(ctx, TSR_MEMORY, "no memory for the name of the machine");
    return TSR_SUCCESS;
}
