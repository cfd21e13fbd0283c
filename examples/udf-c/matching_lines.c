/* A user function in C: the lines that contain a text, as `grep -F` finds them. It serves as the example of the guide and
 * is compiled and run by the tests.
 *
 *     cc -std=c11 -O2 -Wall -Wextra -shared -fPIC -I crates/udf/include -o matching_lines.so examples/udf-c/matching_lines.c
 *     sector run --udf matching_lines.so:matching_lines --param text=error --input /logs --output /errors
 *
 * The input must be stored with `--records lines`. Nothing here allocates: lines are emitted from where they lie.
 */
#define _GNU_SOURCE
#include <string.h>

#include "sector_udf.h"

SECTOR_UDF_LIBRARY
SECTOR_UDF_PARAMETERS(matching_lines, "text,")

/* Progress is told about every so many bytes. */
enum { PROGRESS_BYTES = 1 << 20 };

SECTOR_UDF_EXPORT int32_t matching_lines(const sector_input *input, sector_output *output);

SECTOR_UDF_EXPORT int32_t matching_lines(const sector_input *input, sector_output *output) {
    const char *text = input->parameter(input, "text");
    const uint8_t *line = input->bytes;
    const uint8_t *const end = input->bytes + input->length;
    const uint8_t *told = input->bytes;
    size_t text_bytes;

    if (text == NULL || *text == '\0') {
        output->fail(output, SECTOR_NO_RECORD, "the parameter `text` is missing: give it with `--param text=WORDS`");
        return 1;
    }
    if (input->record_format != SECTOR_RECORDS_LINES) {
        output->fail(output, SECTOR_NO_RECORD, "this function needs lines: store its input with `--records lines`");
        return 1;
    }
    text_bytes = strlen(text);
    while (line < end) {
        const uint8_t *newline = (const uint8_t *)memchr(line, '\n', (size_t)(end - line));
        const uint8_t *next = newline != NULL ? newline + 1 : end;
        if (memmem(line, (size_t)(next - line), text, text_bytes) != NULL) {
            int32_t closed = output->emit(output, 0, line, (uint64_t)(next - line));
            if (closed != 0) {
                return closed;
            }
        }
        line = next;
        if (line - told > PROGRESS_BYTES) {
            told = line;
            output->progress(output, (uint64_t)(line - input->bytes));
        }
    }
    return 0;
}
