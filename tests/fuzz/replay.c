/* SPDX-License-Identifier: Apache-2.0
 *
 *     replay [--faults] FILE|FOLDER...    runs the target on every file
 *     replay --seeds FOLDER               writes valid seed inputs
 *
 * With --faults each input runs again with the n-th read failing, and with the n-th allocation
 * failing, for every n until none fails. Linked with --wrap: the product's allocations are
 * redirected to this file, and cJSON's through its hooks.
 */
#include "tests/fuzz/fuzz.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS_MAX = 200 };

static long allocations, fail_allocation = -1;
static bool allocation_failed;

static bool fails(void) {
    bool now = fail_allocation >= 0 && fuzz_armed && allocations++ == fail_allocation;
    allocation_failed |= now;
    return now;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }
void *__wrap_aligned_alloc(size_t align, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(align, size);
}
static void *cjson_malloc(size_t size) { return __wrap_malloc(size); }

/* The mutators are linked, but not called. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size_bytes, size_t size_max) {
    (void)bytes, (void)size_max;
    return size_bytes;
}

static void run_with_faults(const uint8_t *bytes, size_t size_bytes) {
    fuzz_faults = true;
    for (fuzz_fail_read = 0; fuzz_fail_read < 16; fuzz_fail_read++)
        fuzz_the_target.run(bytes, size_bytes);
    fuzz_fail_read = -1;
    for (long n = 0; n < FAULTS_MAX; n++) {
        allocations = 0;
        allocation_failed = false;
        fail_allocation = n;
        fuzz_the_target.run(bytes, size_bytes);
        fail_allocation = -1;
        if (!allocation_failed) break;
    }
    fuzz_faults = false;
}

static unsigned long count;

static void run_file(const char *path, bool faults) {
    FILE *file = fopen(path, "rb");
    fuzz_require(file && fseek(file, 0, SEEK_END) == 0, "a file that can be read");
    size_t size = (size_t)ftell(file);
    uint8_t *bytes = malloc(size + 1);
    rewind(file);
    fuzz_require(bytes && fread(bytes, 1, size, file) == size, "a file that can be read");
    fclose(file);
    fuzz_the_target.run(bytes, size);
    if (faults) run_with_faults(bytes, size);
    free(bytes);
    count++;
}

static void run_path(const char *path, bool faults) {
    DIR *folder = opendir(path);
    if (!folder) {
        run_file(path, faults);
        return;
    }
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char inside[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        run_file(inside, faults);
    }
    closedir(folder);
}

int main(int argc, char **argv) {
    cJSON_Hooks hooks = {.malloc_fn = cjson_malloc, .free_fn = free};
    bool faults = false;
    cJSON_InitHooks(&hooks);
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        fuzz_the_target.seed(argv[2]);
        return 0;
    }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--faults") == 0)
            faults = true;
        else
            run_path(argv[i], faults);
    printf("%s: %lu inputs%s\n", fuzz_the_target.name, count,
           faults ? ", each with every failing read and allocation" : "");
    return count > 0 ? 0 : 1;
}
