/* SPDX-License-Identifier: Apache-2.0 */
#include "registry/reference.h"

#include <string.h>
#include <strings.h>

#define DIGITS "0123456789"
#define LOWER "abcdefghijklmnopqrstuvwxyz" DIGITS
#define LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Returns the length of the separator between two alphanumeric runs of a name: one dot, one or two
 * underscores, or any number of dashes; 0 if there is no separator. */
static size_t separator(const char *at) {
    if (at[0] == '.') return 1;
    if (at[0] == '_') return at[1] == '_' ? 2 : 1;
    return strspn(at, "-");
}

bool tsr_reference_name_valid(const char *name) {
    const char *at = name;
    if (strnlen(name, TSR_REFERENCE_NAME_MAX + 1) > TSR_REFERENCE_NAME_MAX) return false;
    for (;;) {
        size_t run = strspn(at, LOWER);
        if (!run) return false;
        at += run;
        if (!*at) return true;
        size_t skip = *at == '/' ? 1 : separator(at);
        if (!skip) return false;
        at += skip;
    }
}

static bool port_valid(const char *port) {
    size_t digits = strspn(port, DIGITS);
    unsigned value = 0;
    if (digits < 1 || digits > 5 || port[digits]) return false;
    for (size_t i = 0; i < digits; i++) value = value * 10 + (unsigned)(port[i] - '0');
    return value > 0 && value < 65536;
}

/* Accepts a DNS name or an address, with or without a port. */
static bool host_valid(const char *host) {
    if (host[0] == '[') {
        size_t address = strspn(host + 1, "0123456789abcdefABCDEF:.");
        const char *rest = host + 1 + address;
        if (address < 2 || rest[0] != ']') return false;
        return !rest[1] || (rest[1] == ':' && port_valid(rest + 2));
    }
    size_t name = strspn(host, LETTERS ".-");
    if (!name || host[0] == '.' || host[0] == '-') return false;
    return !host[name] || (host[name] == ':' && port_valid(host + name + 1));
}

/* Distinguishes a host from the first part of a name. */
static bool is_like_host(const char *text) {
    return strpbrk(text, ".:") || strcmp(text, "localhost") == 0;
}

static bool take_text(char *out, size_t capacity, const char *text, size_t size) {
    if (size >= capacity) return false;
    memcpy(out, text, size);
    out[size] = 0;
    return true;
}

/* Removes "@sha256:…" and ":tag" from the end of the name. */
static const char *parse_rest(const char *text, tsr_reference *out) {
    static const char algorithm[] = "@sha256:";
    const char *at = strchr(text, '@'), *end = at ? at : text + strlen(text);
    const char *colon = memchr(text, ':', (size_t)(end - text));
    const char *name_end = colon ? colon : end;
    if (at) {
        const char *hex = at + sizeof algorithm - 1;
        if (strncmp(at, algorithm, sizeof algorithm - 1) != 0 ||
            !tsr_digest_parse(hex, strnlen(hex, TSR_DIGEST_HEX + 1), &out->digest))
            return "sha256: and 64 lower-case digits after '@'";
        out->has_digest = true;
    }
    if (colon) {
        size_t size = (size_t)(end - colon) - 1;
        if (!take_text(out->tag, sizeof out->tag, colon + 1, size) || !size ||
            strspn(out->tag, LETTERS "_.-") != size || strchr(".-", out->tag[0]))
            return "a tag of letters, digits and _.-, at most 128";
    } else if (!at)
        strcpy(out->tag, "latest");
    if (!take_text(out->name, sizeof out->name, text, (size_t)(name_end - text)) ||
        !tsr_reference_name_valid(out->name))
        return "a repository name of lower-case letters, digits and separators";
    return NULL;
}

tsr_result tsr_reference_parse(tsr_ctx *ctx, const char *text, tsr_reference *out_reference) {
    tsr_reference reference = {0};
    const char *slash = strchr(text, '/'), *problem = NULL;
    if (!slash || !take_text(reference.host, sizeof reference.host, text, (size_t)(slash - text)) ||
        !is_like_host(reference.host))
        problem = "host[:port]/name[:tag], the host with a dot or a port";
    else if (!host_valid(reference.host))
        problem = "a host name or address before the first '/'";
    else
        problem = parse_rest(slash + 1, &reference);
    if (problem) FAIL(ctx, TSR_USAGE, "reference '%.300s': expected %s", text, problem);
    *out_reference = reference;
    return TSR_SUCCESS;
}

bool tsr_host_is_loopback(const char *host) {
    size_t name = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (name == 9 && strncasecmp(host, "localhost", 9) == 0) return true;
    if (name == 5 && strncmp(host, "[::1]", 5) == 0) return true;
    return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == name;
}
