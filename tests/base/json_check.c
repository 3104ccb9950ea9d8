/* SPDX-License-Identifier: Apache-2.0
 *
 * For json_reference.py: reads texts, each as a decimal size, a newline and that many bytes. Prints
 * 1 for each accepted text, 0 for each refused one.
 */
#include "runtime/base/io/json.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    size_t size;
    while (scanf("%zu", &size) == 1 && getchar() == '\n') {
        tsr_ctx ctx = {0};
        struct cJSON *root = NULL;
        char *text = malloc(size ? size : 1);
        if (!text || fread(text, 1, size, stdin) != size) return 1;
        tsr_result result = tsr_json_parse(
            &ctx, text, size, &(tsr_json_options){.subject = "text", .code = TSR_DATA}, &root);
        putchar(result.code ? '0' : '1');
        tsr_json_destroy(root);
        free(text);
    }
    putchar('\n');
    return 0;
}
