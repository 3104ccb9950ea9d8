/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/remote.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- flags and environment ---- */

void tsr_remote_line_init(tsr_remote_line *line) {
    *line = (tsr_remote_line){.options = {.size_bytes = sizeof line->options},
                              .retries = TSR_REGISTRY_RETRIES,
                              .retry_delay_ms = TSR_REGISTRY_RETRY_DELAY_MS,
                              .timeout_s = TSR_REGISTRY_TIMEOUT_S,
                              .jobs = TSR_REGISTRY_JOBS};
}

void tsr_remote_line_release(tsr_remote_line *line) { tsr_arena_finish(&line->arena); }

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* The lower-case name has priority. Like curl, this ignores upper-case HTTP_PROXY, because a
 * request to a CGI program can set it. */
static const char *proxy_variable(const char *lower, const char *upper) {
    const char *value = variable(lower);
    if (!value && upper) value = variable(upper);
    if (!value) value = variable("all_proxy");
    return value ? value : variable("ALL_PROXY");
}

static void add_auth_path(tsr_remote_line *line, const char *folder, const char *rest) {
    if (!folder) return;
    const char *path = tsr_arena_printf(&line->arena, "%s%s", folder, rest);
    if (path) line->auth_paths[line->options.auth_path_count++] = path;
}

/* Searches in the order of containers-auth.json(5), then docker's. */
static tsr_result find_auth_files(tsr_ctx *ctx, tsr_remote_line *line) {
    const char *one = line->auth_file ? line->auth_file : variable("REGISTRY_AUTH_FILE");
    line->options.auth_paths = line->auth_paths;
    if (one) {
        if (access(one, R_OK) != 0)
            FAIL(ctx, TSR_IO, "cannot read '%s', the file of the logins", one);
        add_auth_path(line, one, "");
        return TSR_SUCCESS;
    }
    const char *home = variable("HOME"), *docker = variable("DOCKER_CONFIG");
    add_auth_path(line, variable("XDG_RUNTIME_DIR"), "/containers/auth.json");
    add_auth_path(line, home, "/.config/containers/auth.json");
    if (docker)
        add_auth_path(line, docker, "/config.json");
    else
        add_auth_path(line, home, "/.docker/config.json");
    return TSR_SUCCESS;
}

static tsr_result find_proxy(tsr_ctx *ctx, tsr_remote_line *line) {
    tsr_registry_options *o = &line->options;
    if (line->proxy) {
        o->proxy_http = o->proxy_https = line->proxy;
        return TSR_SUCCESS;
    }
    const char *none = variable("no_proxy");
    if (!none) none = variable("NO_PROXY");
    o->proxy_http = proxy_variable("http_proxy", NULL);
    o->proxy_https = proxy_variable("https_proxy", "HTTPS_PROXY");
    o->no_proxy = none && strcmp(none, "*") == 0
                      ? none
                      : tsr_arena_printf(&line->arena, "localhost,127.0.0.1,::1%s%s",
                                         none ? "," : "", none ? none : "");
    if (!o->no_proxy) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
    return TSR_SUCCESS;
}

/* ---- progress ---- */

typedef struct shown_bytes {
    char text[24];
} shown_bytes;

static shown_bytes show_bytes(double bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    shown_bytes out;
    size_t unit = 0;
    for (; bytes >= 999.5 && unit + 1 < TSR_COUNT(units); unit++) bytes /= 1000;
    snprintf(out.text, sizeof out.text, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

/* Queried each time, because a window may change its size. */
static int terminal_columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* Uses one row and never the last column, so that the cursor stays in the row; a narrow terminal
 * has a shorter bar or no bar. */
static void draw_bar(tsr_remote_meter *meter, const tsr_registry_progress *p, const char *eta) {
    enum { WIDTH_MIN = 4, WIDTH = 28, FRAME = 10 /* the verb and the brackets */ };
    enum { NUMBERS = sizeof "100 %  999.9 MB of 999.9 MB  999.9 MB/s  0:00:00 left" };
    char bar[WIDTH + 1] = "", numbers[128], row[FRAME + WIDTH + sizeof numbers + 8];
    double share = p->total_bytes ? (double)p->done_bytes / (double)p->total_bytes : 1;
    if (share > 1) share = 1;
    snprintf(numbers, sizeof numbers, "%3.0f %%  %s of %s  %s/s  %s", share * 100,
             show_bytes((double)p->done_bytes).text, show_bytes((double)p->total_bytes).text,
             show_bytes(meter->rate).text, eta);
    int columns = terminal_columns(), width = columns - 1 - FRAME - NUMBERS;
    if (width > WIDTH) width = WIDTH;
    int filled = (int)(share * width);
    for (int i = 0; i < width; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    if (width >= WIDTH_MIN)
        snprintf(row, sizeof row, "%-8s[%.*s] %s", p->what, width, bar, numbers);
    else
        snprintf(row, sizeof row, "%-8s%s", p->what, numbers);
    fprintf(stderr, "\r%.*s\033[K", columns - 1, row);
    meter->drawn = true;
}

static void draw_line(tsr_remote_meter *meter, const tsr_registry_progress *p, const char *eta,
                      double time) {
    enum { SECONDS = 5 };
    bool end = p->done_bytes == p->total_bytes;
    if (!end && time - meter->last_line < SECONDS) return;
    meter->last_line = time;
    if (end) eta = "";
    fprintf(stderr, "%s: %s of %s, %s/s%s%s\n", p->what, show_bytes((double)p->done_bytes).text,
            show_bytes((double)p->total_bytes).text, show_bytes(meter->rate).text, *eta ? ", " : "",
            eta);
}

/* Measures the rate over the last seconds: older rates say little about the remaining time. */
static void measure(tsr_remote_meter *meter, const tsr_registry_progress *p, double time) {
    double span = time - meter->rate_time;
    double all = time - meter->start;
    if (p->done_bytes < meter->rate_bytes) meter->rate_bytes = p->done_bytes;
    if (span < 0.5 && meter->rate > 0 && p->done_bytes != p->total_bytes) return;
    if (p->done_bytes == p->total_bytes || meter->rate <= 0) {
        meter->rate = all > 0 ? (double)p->done_bytes / all : 0;
    } else {
        double fresh = (double)(p->done_bytes - meter->rate_bytes) / span;
        meter->rate = 0.7 * meter->rate + 0.3 * fresh;
    }
    meter->rate_time = time;
    meter->rate_bytes = p->done_bytes;
}

static void on_progress(void *user, const tsr_registry_progress *p) {
    tsr_remote_meter *meter = user;
    double time = tsr_clock_seconds();
    char eta[48] = "";
    if (meter->quiet || !p->total_bytes) return;
    if (!meter->what || strcmp(meter->what, p->what) != 0) {
        tsr_remote_meter_end(meter);
        *meter = (tsr_remote_meter){.quiet = meter->quiet,
                                    .terminal = meter->terminal,
                                    .what = p->what,
                                    .start = time,
                                    .last_line = time,
                                    .rate_time = time};
    }
    measure(meter, p, time);
    if (meter->rate > 0) {
        double left = (double)(p->total_bytes - p->done_bytes) / meter->rate;
        if (left < 360000)
            snprintf(eta, sizeof eta, "%d:%02d:%02d left", (int)left / 3600, (int)left / 60 % 60,
                     (int)left % 60);
    }
    if (meter->terminal)
        draw_bar(meter, p, eta);
    else
        draw_line(meter, p, eta, time);
}

void tsr_remote_meter_end(tsr_remote_meter *meter) {
    if (meter->drawn) fputs("\r\033[K", stderr);
    meter->drawn = false;
}

/* ---- both ---- */

tsr_result tsr_remote_line_finish(tsr_ctx *ctx, tsr_remote_line *line, const char *command) {
    tsr_registry_options *o = &line->options;
    if (line->quiet && line->json)
        FAIL(ctx, TSR_USAGE, "%s: --quiet and --json do not go together", command);
    o->retries = (unsigned)line->retries;
    o->no_retries = line->retries == 0;
    o->retry_delay_ms = (unsigned)line->retry_delay_ms;
    o->timeout_s = (unsigned)line->timeout_s;
    o->jobs = (unsigned)line->jobs;
    if (o->ca_path && access(o->ca_path, R_OK) != 0)
        FAIL(ctx, TSR_IO, "cannot read '%s', the file of --ca", o->ca_path);
    TRY(ctx, find_auth_files(ctx, line));
    TRY(ctx, find_proxy(ctx, line));
    line->meter.quiet = line->quiet;
    const char *term = variable("TERM");
    line->meter.terminal = isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
    o->progress = on_progress;
    o->user = &line->meter;
    return TSR_SUCCESS;
}

static void print_json(const char *reference, const char *path, const tsr_registry_report *r) {
    tsr_buffer out = {0};
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&r->digest, hex);
    tsr_buffer_text(&out, "{\"reference\": ");
    tsr_buffer_json_string(&out, reference);
    tsr_buffer_text(&out, ", \"file\": ");
    tsr_buffer_json_string(&out, path);
    tsr_buffer_printf(
        &out,
        ", \"digest\": \"sha256:%s\", \"bundleBytes\": %" PRIu64 ", \"sentBytes\": %" PRIu64
        ", \"receivedBytes\": %" PRIu64 ", \"reusedBytes\": %" PRIu64 ", \"blobs\": %" PRIu64
        ", \"presentBlobs\": %" PRIu64 ", \"mountedBlobs\": %" PRIu64 ", \"requests\": %" PRIu64
        ", \"retries\": %" PRIu64 ", \"signature\": %s, \"unchanged\": %s, \"seconds\": %.3f}\n",
        hex, r->bundle_bytes, r->sent_bytes, r->received_bytes, r->reused_bytes, r->blob_count,
        r->present_blob_count, r->mounted_blob_count, r->request_count, r->retry_count,
        r->signature ? "true" : "false", r->unchanged ? "true" : "false", r->seconds);
    if (out.bytes) fwrite(out.bytes, 1, out.size_bytes, stdout);
    tsr_buffer_finish(&out);
}

void tsr_remote_print(const tsr_remote_line *line, const char *verb, const char *reference,
                      const char *path, const tsr_registry_report *report) {
    char hex[TSR_DIGEST_HEX + 1];
    if (line->quiet) return;
    if (line->json) {
        print_json(reference, path, report);
        return;
    }
    tsr_digest_format(&report->digest, hex);
    printf("%s %s sha256:%s%s\n", verb, reference, hex,
           report->unchanged ? " (nothing had changed)" : "");
    printf("  sent %s, received %s in %.2f s", show_bytes((double)report->sent_bytes).text,
           show_bytes((double)report->received_bytes).text, report->seconds);
    if (report->reused_bytes)
        printf(", %s were here", show_bytes((double)report->reused_bytes).text);
    printf("; %" PRIu64 " of %" PRIu64 " blob%s %s there", report->present_blob_count,
           report->blob_count, TSR_PLURAL(report->blob_count), TSR_WAS_WERE(report->blob_count));
    if (report->mounted_blob_count) printf(", %" PRIu64 " mounted", report->mounted_blob_count);
    if (report->retry_count)
        printf("; %" PRIu64 " retr%s", report->retry_count, TSR_PLURAL_Y(report->retry_count));
    printf("%s\n", report->signature ? "; with its signature" : "");
}
