/* MapReduce in C: how often each word stands in some texts, in two stages. The first gives each word to the bucket of its hash;
 * the second adds up a bucket. It is compiled and run by the tests.
 *
 *     cc -std=c11 -O2 -Wall -Wextra -shared -fPIC -I crates/udf/include -o word_count.so examples/udf-c/word_count.c
 *     sector run --udf word_count.so:words --input /texts --records lines --buckets 8 --then word_count.so:total --output /counts
 *
 * A word is what stands between blanks, tabs and line ends. Words are compared where they lie in the segment: only the table of
 * them is allocated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sector_udf.h"

SECTOR_UDF_LIBRARY

/* A word that was found, and how often; `bytes` is NULL where there is none. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
    uint64_t count;
} entry;

/* An open table, at most half full; `slots` is a power of two. */
typedef struct {
    entry *entries;
    size_t slots;
    size_t used;
} table;

static int is_blank(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

/* Where a word is, or is to be. */
static entry *slot_of(const table *counts, const uint8_t *word, size_t length) {
    size_t slot = (size_t)sector_key_hash(word, length) & (counts->slots - 1);
    for (;; slot = (slot + 1) & (counts->slots - 1)) {
        entry *found = &counts->entries[slot];
        if (found->bytes == NULL || (found->length == length && memcmp(found->bytes, word, length) == 0)) {
            return found;
        }
    }
}

/* Adds to the count of a word. Not 0: there is no memory. */
static int32_t add(table *counts, const uint8_t *word, size_t length, uint64_t count) {
    entry *found;
    if (counts->used * 2 >= counts->slots) {
        table larger = {NULL, counts->slots == 0 ? 1024 : counts->slots * 2, counts->used};
        size_t at;
        larger.entries = (entry *)calloc(larger.slots, sizeof(entry));
        if (larger.entries == NULL) {
            return 1;
        }
        for (at = 0; at < counts->slots; at++) {
            if (counts->entries[at].bytes != NULL) {
                *slot_of(&larger, counts->entries[at].bytes, counts->entries[at].length) = counts->entries[at];
            }
        }
        free(counts->entries);
        *counts = larger;
    }
    found = slot_of(counts, word, length);
    if (found->bytes == NULL) {
        found->bytes = word;
        found->length = length;
        counts->used++;
    }
    found->count += count;
    return 0;
}

/* Adds all words of a segment. */
static int32_t add_words(const sector_input *input, sector_output *output, table *counts) {
    const uint8_t *at = input->bytes;
    const uint8_t *const end = input->bytes + input->length;
    while (at < end) {
        const uint8_t *word;
        while (at < end && is_blank(*at)) {
            at++;
        }
        word = at;
        while (at < end && !is_blank(*at)) {
            at++;
        }
        if (at > word && add(counts, word, (size_t)(at - word), 1) != 0) {
            output->fail(output, SECTOR_NO_RECORD, "there is no memory for so many words: give the job smaller segments");
            return 1;
        }
    }
    return 0;
}

/* Emits `word`, a tab, how often it was counted, and a line end, to the bucket of the word. */
static int32_t emit_counts(sector_output *output, const table *counts) {
    uint8_t *line = NULL;
    size_t room = 0, at;
    int32_t closed = 0;
    for (at = 0; at < counts->slots && closed == 0; at++) {
        const entry *found = &counts->entries[at];
        int digits;
        if (found->bytes == NULL) {
            continue;
        }
        if (line == NULL || found->length + 32 > room) {
            uint8_t *longer = (uint8_t *)realloc(line, found->length + 32);
            if (longer == NULL) {
                output->fail(output, SECTOR_NO_RECORD, "there is no memory for so long a word");
                closed = 1;
                break;
            }
            line = longer;
            room = found->length + 32;
        }
        memcpy(line, found->bytes, found->length);
        digits = snprintf((char *)line + found->length, 32, "\t%llu\n", (unsigned long long)found->count);
        closed = output->emit(output, sector_key_hash(found->bytes, found->length), line,
                              (uint64_t)(found->length + (size_t)digits));
    }
    free(line);
    return closed;
}

/* The first stage: each word of a segment, with how often it stands there. So a word is sent once a segment, and not each time. */
SECTOR_UDF_EXPORT int32_t words(const sector_input *input, sector_output *output);

SECTOR_UDF_EXPORT int32_t words(const sector_input *input, sector_output *output) {
    table counts = {NULL, 0, 0};
    int32_t ended = add_words(input, output, &counts);
    if (ended == 0) {
        size_t at;
        uint64_t all = 0;
        for (at = 0; at < counts.slots; at++) {
            all += counts.entries[at].count;
        }
        sector_count(output, "words", all);
        ended = emit_counts(output, &counts);
    }
    free(counts.entries);
    return ended;
}

/* The second stage: a bucket has the lines of all segments for its words; their counts are added up. */
SECTOR_UDF_EXPORT int32_t total(const sector_input *input, sector_output *output);

SECTOR_UDF_EXPORT int32_t total(const sector_input *input, sector_output *output) {
    table counts = {NULL, 0, 0};
    const uint8_t *line = input->bytes;
    const uint8_t *const end = input->bytes + input->length;
    uint64_t number = 0;
    int32_t ended = 0;
    for (; line < end && ended == 0; number++) {
        const uint8_t *stop = (const uint8_t *)memchr(line, '\n', (size_t)(end - line));
        const uint8_t *tab = (const uint8_t *)memchr(line, '\t', (size_t)((stop != NULL ? stop : end) - line));
        uint64_t count = 0;
        const uint8_t *digit;
        /* Lines of the first stage always end, and have a tab before their number. */
        if (stop == NULL || tab == NULL || tab + 1 == stop) {
            output->fail(output, number, "this is no line of the first stage: use `total` after `words`");
            ended = 1;
            break;
        }
        for (digit = tab + 1; digit < stop && *digit >= '0' && *digit <= '9'; digit++) {
            count = count * 10 + (uint64_t)(*digit - '0');
        }
        if (digit < stop) {
            output->fail(output, number, "a count is no number: use `total` after `words`");
            ended = 1;
        } else if (add(&counts, line, (size_t)(tab - line), count) != 0) {
            output->fail(output, number, "there is no memory for so many words: give the job more buckets");
            ended = 1;
        }
        line = stop + 1;
    }
    if (ended == 0) {
        sector_count(output, "different words", counts.used);
        ended = emit_counts(output, &counts);
    }
    free(counts.entries);
    return ended;
}
