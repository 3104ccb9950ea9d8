/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/options.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"
#include "runtime/base/suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tsr_result unknown(tsr_ctx *ctx, const char *given, const tsr_flag *flags,
                          size_t flag_count) {
    tsr_buffer list = {0};
    char name[64], meant[TSR_SUGGESTION_TEXT_MAX];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    tsr_suggestion likely = {.wrong = name};
    for (size_t i = 0; i < flag_count; i++) {
        tsr_buffer_printf(&list, "%s%s", i ? " " : "", flags[i].name);
        tsr_suggest(&likely, flags[i].name);
    }
    tsr_result result =
        tsr_fail_(ctx, TSR_USAGE, 0, __FILE__, __LINE__, "unknown flag '%s'; known are %s%s", given,
                  list.bytes ? list.bytes : "none", tsr_suggestion_text(&likely, meant));
    tsr_buffer_finish(&list);
    return result;
}

static tsr_result parse_count(tsr_ctx *ctx, const tsr_flag *flag, const char *text) {
    char *end = NULL;
    errno = 0;
    bool digits = text[0] && strspn(text, "0123456789") == strlen(text);
    uint64_t value = digits ? strtoull(text, &end, 10) : 0;
    if (!digits || errno == ERANGE || value < flag->min || value > flag->max)
        FAIL(ctx, TSR_USAGE, "%s is '%s'; expected a number from %" PRIu64 " to %" PRIu64,
             flag->name, text, flag->min, flag->max);
    *(uint64_t *)flag->target = value;
    return TSR_SUCCESS;
}

static tsr_result parse_pair(tsr_ctx *ctx, const tsr_flag *flag, const char *text) {
    tsr_flag_pairs *pairs = flag->target;
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        FAIL(ctx, TSR_USAGE, "%s is '%s'; expected %s", flag->name, text, flag->value);
    if (pairs->count == TSR_FLAG_PAIRS_MAX)
        FAIL(ctx, TSR_USAGE, "%s is given more than %d times", flag->name, TSR_FLAG_PAIRS_MAX);
    size_t length = (size_t)(equals - text);
    for (size_t i = 0; i < pairs->count; i++)
        if (strlen(pairs->pairs[i].name) == length &&
            memcmp(pairs->pairs[i].name, text, length) == 0)
            FAIL(ctx, TSR_USAGE, "%s names '%s' twice: '%s' and '%s'", flag->name,
                 pairs->pairs[i].name, pairs->pairs[i].value, equals + 1);
    char *name = strndup(text, length);
    if (!name) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
    pairs->pairs[pairs->count++] = (tsr_flag_pair){name, equals + 1};
    return TSR_SUCCESS;
}

static tsr_result append(tsr_ctx *ctx, const tsr_flag *flag, const char *text) {
    tsr_flag_list *list = flag->target;
    if (list->count == TSR_FLAG_LIST_MAX)
        FAIL(ctx, TSR_USAGE, "%s is given more than %d times", flag->name, TSR_FLAG_LIST_MAX);
    list->texts[list->count++] = text;
    return TSR_SUCCESS;
}

static tsr_result store(tsr_ctx *ctx, tsr_flag *flag, const char *value) {
    if (flag->given && flag->kind != TSR_FLAG_PAIR && flag->kind != TSR_FLAG_LIST)
        FAIL(ctx, TSR_USAGE, "%s is given twice", flag->name);
    flag->given = true;
    if (value && !value[0] && flag->kind != TSR_FLAG_COUNT && flag->kind != TSR_FLAG_PAIR)
        FAIL(ctx, TSR_USAGE, "%s is empty; expected %s", flag->name, flag->value);
    switch (flag->kind) {
    case TSR_FLAG_SWITCH:
        *(bool *)flag->target = true;
        return TSR_SUCCESS;
    case TSR_FLAG_TEXT:
        *(const char **)flag->target = value;
        return TSR_SUCCESS;
    case TSR_FLAG_COUNT:
        return parse_count(ctx, flag, value);
    case TSR_FLAG_PAIR:
        return parse_pair(ctx, flag, value);
    case TSR_FLAG_LIST:
        return append(ctx, flag, value);
    }
    return TSR_SUCCESS;
}

static tsr_flag *find(tsr_flag *flags, size_t flag_count, const char *text, size_t length) {
    for (size_t i = 0; i < flag_count; i++)
        if (strlen(flags[i].name) == length && memcmp(flags[i].name, text, length) == 0)
            return &flags[i];
    return NULL;
}

/* Metavariables of values that are file names. */
static bool names_file(const tsr_flag *flag) {
    static const char *const words[] = {"FILE", "DIR", "OUT",  "KEY",
                                        "PUB",  "OLD", "PATH", "NAME=PATH"};
    for (size_t i = 0; flag->value && i < TSR_COUNT(words); i++)
        if (strcmp(flag->value, words[i]) == 0) return true;
    return false;
}

tsr_result tsr_flags_parse(tsr_ctx *ctx, int argc, char **argv, tsr_flag *flags, size_t flag_count,
                           const char **positional, size_t *out_positional_count) {
    size_t count = 0;
    bool only_positional = false;
    for (size_t i = 0; i < flag_count; i++)
        TSR_ASSERT(names_file(&flags[i]) == (flags[i].use != TSR_FILE_NONE));
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        if (only_positional || text[0] != '-' || text[1] == 0) {
            positional[count++] = text;
            continue;
        }
        if (strcmp(text, "--") == 0) {
            only_positional = true;
            continue;
        }
        size_t length = strcspn(text, "=");
        tsr_flag *flag = find(flags, flag_count, text, length);
        if (!flag) return unknown(ctx, text, flags, flag_count);
        const char *value = text[length] ? text + length + 1 : NULL;
        if (flag->kind == TSR_FLAG_SWITCH && value)
            FAIL(ctx, TSR_USAGE, "%s takes no value; got '%s'", flag->name, value);
        if (flag->kind != TSR_FLAG_SWITCH && !value) {
            if (i + 1 == argc)
                FAIL(ctx, TSR_USAGE, "%s needs a value: %s", flag->name, flag->value);
            value = argv[++i];
        }
        TRY(ctx, store(ctx, flag, value));
    }
    *out_positional_count = count;
    return TSR_SUCCESS;
}

void tsr_flags_print(const tsr_flag *flags, size_t flag_count) {
    for (size_t i = 0; i < flag_count; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", flags[i].name, flags[i].value ? " " : "",
                 flags[i].value ? flags[i].value : "");
        printf("  %-26s %s\n", left, flags[i].help);
    }
}

void tsr_flag_pairs_finish(tsr_flag_pairs *pairs) {
    for (size_t i = 0; i < pairs->count; i++) free((void *)(uintptr_t)pairs->pairs[i].name);
    pairs->count = 0;
}

static void end_clean(int number) {
    tsr_io_remove_temporaries();
    signal(number, SIG_DFL);
    raise(number);
}

static void remove_temporaries_at_end(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    struct sigaction before, action = {.sa_handler = end_clean};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < TSR_COUNT(numbers); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
}

void tsr_tool_begin(void) {
    /* A file opened with the number of a closed standard stream would receive the printed text. The
     * replacement is read-only, so that writing to the stream still fails. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) break;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    remove_temporaries_at_end();
}

void tsr_tool_log(void *user, tsr_log_level level, const char *text) {
    static const char *const names[] = {[TSR_LOG_ERROR] = "error",
                                        [TSR_LOG_WARNING] = "warning",
                                        [TSR_LOG_NOTICE] = "notice",
                                        [TSR_LOG_DEBUG] = "debug"};
    fprintf(stderr, "%s: %s: %s\n", (const char *)user, names[level], text);
}

int tsr_tool_finish(tsr_ctx *ctx, const char *tool, tsr_result result) {
    if (result.code) fprintf(stderr, "%s: error: %s\n", tool, ctx->error.text);
    return tsr_tool_end(tool, result);
}

/* Returns true if text for standard error was lost. A stream that was closed on purpose loses
 * nothing; a terminal or a non-blocking stream may be slow for a moment. */
static bool has_lost_messages(void) {
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    if (!ferror(stderr) || flags < 0 || (flags & O_ACCMODE) == O_RDONLY) return false;
    return !(flags & O_NONBLOCK) && !isatty(STDERR_FILENO);
}

int tsr_tool_end(const char *tool, tsr_result result) {
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        /* If the text is longer than the buffer, an earlier write failed; writing one more byte
         * shows the reason. */
        if (!errno && write(STDOUT_FILENO, "\n", 1) == 1) errno = EIO;
        fprintf(stderr, "%s: error: cannot write to standard output: %s\n", tool,
                strerror(errno ? errno : EIO));
        if (!result.code) result.code = TSR_IO;
    }
    if (!result.code && has_lost_messages()) result.code = TSR_IO;
    return (int)result.code;
}
