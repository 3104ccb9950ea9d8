/* SPDX-License-Identifier: Apache-2.0
 *
 * Doubles as text, exactly: the C99 hexadecimal form that printf("%a") of glibc writes in the C
 * locale, whatever the locale is. One value has one spelling: "0x1.8p+1", "-0x0p+0",
 * "0x0.0000000000001p-1022".
 */
#ifndef TSR_MANIFESTS_HEXFLOAT_H
#define TSR_MANIFESTS_HEXFLOAT_H

#include <stdbool.h>

enum { TSR_HEXFLOAT_TEXT_MAX = 32 };

/* `value` must be finite. Returns `out_text`. */
const char *tsr_hexfloat_format(double value, char out_text[static TSR_HEXFLOAT_TEXT_MAX]);
/* Accepts only the spelling that tsr_hexfloat_format writes; else returns false. */
bool tsr_hexfloat_parse(const char *text, double *out_value);

#endif
