/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/advice.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"

#include <string.h>
#include <sys/stat.h>

enum { COMMAND_BYTES_MAX = 500, DIRECTORIES_MAX = 100 };

/* Appends a word as a shell reads it. */
static void add_word(tsr_buffer *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=,+@%^-";
    tsr_buffer_text(out, " ");
    if (word[0] && !word[strspn(word, plain)]) {
        tsr_buffer_text(out, word);
        return;
    }
    tsr_buffer_text(out, "'");
    for (; *word; word++) {
        if (*word == '\'')
            tsr_buffer_text(out, "'\\''");
        else
            tsr_buffer_append(out, word, 1);
    }
    tsr_buffer_text(out, "'");
}

/* Returns true for `flag`, with its value or without; *out_joined: the value is in the same word.
 */
static bool is_flag(const char *word, const char *flag, bool *out_joined) {
    size_t length = strlen(flag);
    if (strncmp(word, flag, length) != 0) return false;
    *out_joined = word[length] == '=';
    return *out_joined || !word[length];
}

/* Returns the first of STATE.adopted, STATE.adopted-2, … that does not exist. */
static const char *find_free(tsr_arena *arena, const char *state_dir) {
    struct stat status;
    size_t length = strlen(state_dir);
    while (length > 1 && state_dir[length - 1] == '/') length--;
    const char *path = tsr_arena_printf(arena, "%.*s.adopted", (int)length, state_dir);
    for (int n = 2; path && n < DIRECTORIES_MAX && lstat(path, &status) == 0; n++)
        path = tsr_arena_printf(arena, "%.*s.adopted-%d", (int)length, state_dir, n);
    return path;
}

/* Appends the arguments without those that say where the run begins. */
static void add_arguments(tsr_buffer *out, int argc, char **argv) {
    static const char *const dropped[] = {"--state-dir", "--resume"};
    for (int i = 1; i < argc; i++) {
        bool drop = false, joined = false;
        for (size_t k = 0; k < TSR_COUNT(dropped) && !drop; k++)
            drop = is_flag(argv[i], dropped[k], &joined);
        if (!drop)
            add_word(out, argv[i]);
        else if (!joined)
            i++; /* the value is the next word */
    }
}

const char *tsr_run_advise_adopt(tsr_arena *arena, int argc, char **argv, const char *state_dir) {
    const char *fresh = state_dir ? find_free(arena, state_dir) : NULL, *advice = NULL;
    tsr_buffer words = {0}, ending = {0};
    bool joined = false;
    for (int i = 1; i < argc; i++)
        if (is_flag(argv[i], "--adopt", &joined)) fresh = NULL;
    if (!fresh) return NULL;
    add_arguments(&words, argc, argv);
    tsr_buffer_text(&ending, " --adopt");
    add_word(&ending, state_dir);
    tsr_buffer_text(&ending, " --state-dir");
    add_word(&ending, fresh);
    bool fits = words.size_bytes + ending.size_bytes <= COMMAND_BYTES_MAX;
    if (!words.failed && !ending.failed)
        advice = tsr_arena_printf(arena, "; --adopt takes over what fits of it: tessera-run%s%s",
                                  fits ? words.bytes : " …", ending.bytes);
    tsr_buffer_finish(&words);
    tsr_buffer_finish(&ending);
    return advice;
}
