/* SPDX-License-Identifier: Apache-2.0
 *
 * The suite of cases.h on a machine with a GPU; it depends only on the runtime:
 *
 *     device-cases [--list] [LIBRARY [HIP-LIBRARY]]
 *
 * runs on the CPU, on the device that does nothing, and on the GPU of LIBRARY (default: the
 * system's NVIDIA driver); on AMD GPUs only with a driver of tests, HIP-LIBRARY, because the toy's
 * kernels exist as PTX alone. Each case has a process of its own, so that a case that breaks the
 * GPU's context does not affect the others. Exit code: 0 if all cases pass, 1 if some do not, 77 if
 * there is no GPU.
 */
#include "runtime/device/device.h"
#include "tests/runtime/device/cases.h"
#include "tests/runtime/device_bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

const char *bench_library, *bench_hip_library;
const bool bench_translates = true;

void bench_failed(const char *file, int line, const char *condition, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%s:%d: %s: ", file, line, condition);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

static void probe(const char *device) {
    tsr_ctx ctx = {0};
    uint32_t arch = 0;
    tsr_result result = tsr_device_gpu_probe(&ctx, &tsr_device_cuda, NULL, bench_library, &arch);
    if (result.code) printf("%s: %s\n", device, ctx.error.text);
    if (!result.code) printf("compute capability %u.%u\n", arch / 10, arch % 10);
    fflush(stdout);
    _exit(result.code ? 1 : 0);
}

/* Runs a case in a process of its own. Returns false if the case fails. */
static bool hold(void (*run)(const char *), const char *device) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        run(device);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return false;
    if (WIFSIGNALED(status)) printf("killed by signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    bool lists = argc > 1 && strcmp(argv[1], "--list") == 0;
    unsigned count = 0, failures = 0;
    if (argc > 1 && !lists) bench_library = argv[1];
    if (argc > 2) bench_hip_library = argv[2];
    if (!lists && !hold(probe, "cuda")) {
        printf("every case is skipped: there is no GPU here\n");
        return SKIPPED;
    }
    for (unsigned i = 0; i < device_case_count; i++)
        for (const char *const *on = device_cases[i].devices; *on; on++) {
            if (strncmp(*on, "hip", 3) == 0 && !bench_hip_library) continue;
            count++;
            if (lists) {
                printf("%s on %s\n", device_cases[i].name, *on);
            } else if (fflush(stdout), !hold(device_cases[i].run, *on)) {
                printf("%s on %s: FAILED\n", device_cases[i].name, *on);
                failures++;
            }
        }
    if (!lists) printf("%u of %u cases of devices hold\n", count - failures, count);
    return failures ? 1 : 0;
}
