/* SPDX-License-Identifier: Apache-2.0
 *
 * References, and the rules for the registry's own origin.
 */
#include "registry/http.h"
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <string.h>

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static tsr_reference good(const char *text) {
    tsr_ctx ctx = {0};
    tsr_reference reference = {0};
    tsr_result result = tsr_reference_parse(&ctx, text, &reference);
    cr_assert_eq(result.code, TSR_OK, "%s: %s", text, ctx.error.text);
    return reference;
}

static void expect_parts(const char *text, const char *host, const char *name, const char *tag,
                         bool has_digest) {
    tsr_reference reference = good(text);
    cr_expect_str_eq(reference.host, host);
    cr_expect_str_eq(reference.name, name);
    cr_expect_str_eq(reference.tag, tag);
    cr_expect_eq(reference.has_digest, has_digest, "%s", text);
}

Test(reference, parts) {
    expect_parts("example.org/a", "example.org", "a", "latest", false);
    expect_parts("example.org:5000/a/b-c/d__e:v1.2_x-", "example.org:5000", "a/b-c/d__e", "v1.2_x-",
                 false);
    expect_parts("localhost/a@sha256:" ZEROS, "localhost", "a", "", true);
    expect_parts("127.0.0.1:1/a:t@sha256:" ZEROS, "127.0.0.1:1", "a", "t", true);
    expect_parts("[::1]:65535/a", "[::1]:65535", "a", "latest", false);
    expect_parts("host.x/a---b", "host.x", "a---b", "latest", false);
}

Test(reference, refused) {
    static const char *const texts[] = {"",
                                        "a",
                                        "/a",
                                        "a/b",
                                        "example.org/",
                                        "example.org/:t",
                                        "example.org/a:",
                                        "example.org/a@",
                                        "example.org/A",
                                        "example.org/a//b",
                                        "example.org/a/",
                                        "example.org/-a",
                                        "example.org/a-",
                                        "example.org/a..b",
                                        "example.org/a___b",
                                        "example.org/a._b",
                                        "example.org/a:-t",
                                        "example.org/a:t t",
                                        "example.org/a@sha512:" ZEROS,
                                        "example.org/a@sha256:" ZEROS "0",
                                        "example.org/a@sha256:0",
                                        "example.org:0/a",
                                        "example.org:65536/a",
                                        "example.org:/a",
                                        "example.org:x/a",
                                        "user@example.org/a",
                                        "https://example.org/a",
                                        "exa mple.org/a",
                                        ".example.org/a",
                                        "[::1/a",
                                        "[::g]/a",
                                        "example.org/a?b",
                                        "example.org/a#b",
                                        "example.org/../a",
                                        "example.org/a%2fb"};
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        tsr_ctx ctx = {0};
        tsr_reference reference;
        tsr_result result = tsr_reference_parse(&ctx, texts[i], &reference);
        cr_expect_eq(result.code, TSR_USAGE, "'%s' was taken", texts[i]);
        cr_expect(strstr(ctx.error.text, "expected"), "'%s': %s", texts[i], ctx.error.text);
    }
}

Test(reference, lengths) {
    char text[600];
    tsr_ctx ctx = {0};
    tsr_reference reference;
    memset(text, 'a', sizeof text);
    memcpy(text, "h.x/", 4);
    text[4 + TSR_REFERENCE_NAME_MAX] = 0;
    cr_expect_eq(tsr_reference_parse(&ctx, text, &reference).code, TSR_OK);
    text[4 + TSR_REFERENCE_NAME_MAX] = 'a';
    text[5 + TSR_REFERENCE_NAME_MAX] = 0;
    cr_expect_eq(tsr_reference_parse(&ctx, text, &reference).code, TSR_USAGE);
    memcpy(text, "h.x/a:", 6);
    text[6 + TSR_REFERENCE_TAG_MAX] = 0;
    cr_expect_eq(tsr_reference_parse(&ctx, text, &reference).code, TSR_OK);
    text[6 + TSR_REFERENCE_TAG_MAX] = 'a';
    text[7 + TSR_REFERENCE_TAG_MAX] = 0;
    cr_expect_eq(tsr_reference_parse(&ctx, text, &reference).code, TSR_USAGE);
}

Test(reference, loopback) {
    static const char *const ours[] = {"localhost",    "LOCALHOST:1", "127.0.0.1",
                                       "127.9.9.9:80", "[::1]",       "[::1]:5000"};
    static const char *const others[] = {"localhost.example.org",
                                         "127.0.0.1.example.org",
                                         "1.2.3.4",
                                         "[::2]",
                                         "example.org:127",
                                         "127"};
    for (size_t i = 0; i < 6; i++) {
        cr_expect(tsr_host_is_loopback(ours[i]), "%s", ours[i]);
        cr_expect_not(tsr_host_is_loopback(others[i]), "%s", others[i]);
    }
}

Test(url, origin) {
    cr_expect(tsr_url_same_origin("https://a.x/b", "https://A.x:443/c?d"));
    cr_expect(tsr_url_same_origin("http://a.x", "http://a.x:80"));
    cr_expect_not(tsr_url_same_origin("https://a.x", "http://a.x"));
    cr_expect_not(tsr_url_same_origin("https://a.x", "https://a.x:444"));
    cr_expect_not(tsr_url_same_origin("https://a.x", "https://b.a.x"));
    cr_expect_not(tsr_url_same_origin("https://a.x", "https://a.x@b.x"));
    cr_expect_not(tsr_url_same_origin("https://a.x", "file:///a.x"));
}

static tsr_code resolve(const char *base, const char *location, const char *expected) {
    char url[TSR_URL_MAX] = "";
    tsr_ctx ctx = {0};
    tsr_code code = tsr_url_resolve(&ctx, base, location, url).code;
    if (!code) cr_expect_str_eq(url, expected);
    return code;
}

Test(url, resolve) {
    cr_expect_eq(resolve("https://a.x/v2/b?c=d", "/v2/e?f", "https://a.x/v2/e?f"), TSR_OK);
    cr_expect_eq(resolve("https://a.x/v2/b", "https://b.x:1/c", "https://b.x:1/c"), TSR_OK);
    cr_expect_eq(resolve("https://a.x/v2/b", "//b.x/c", "https://b.x/c"), TSR_OK);
    cr_expect_eq(resolve("http://a.x/v2/b", "https://a.x/", "https://a.x/"), TSR_OK);
    cr_expect_eq(resolve("https://a.x/v2/b", "http://a.x/", ""), TSR_NETWORK);
    cr_expect_eq(resolve("https://a.x/", "ftp://a.x/", ""), TSR_NETWORK);
    cr_expect_eq(resolve("https://a.x/", "file:///etc/passwd", ""), TSR_NETWORK);
    cr_expect_eq(resolve("https://a.x/", "https://u:p@a.x/", ""), TSR_NETWORK);
    cr_expect_eq(resolve("https://a.x/", "/a b", ""), TSR_NETWORK);
    cr_expect_eq(resolve("https://a.x/", "/a\r\nX: y", ""), TSR_NETWORK);
}
