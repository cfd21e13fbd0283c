/* sector_udf.h: what a user function for Sphere is compiled against, in C11 or C++.
 *
 * A library exports the version it was built for and any number of functions:
 *
 *     #include "sector_udf.h"
 *     SECTOR_UDF_LIBRARY
 *
 *     SECTOR_UDF_EXPORT int32_t count_bytes(const sector_input *input, sector_output *output) {
 *         char line[32];
 *         int length = snprintf(line, sizeof line, "%llu\n", (unsigned long long)input->length);
 *         return output->emit(output, 0, line, (uint64_t)length);
 *     }
 *
 *     cc -std=c11 -O2 -shared -fPIC -I include -o count.so count.c
 *     sector run --udf count.so:count_bytes --input /logs/day.txt --output /counts
 *
 * The function is called once for each segment, in a process of its own, on one thread. It must not keep a pointer
 * into `input` or `output` after it returned, nor use them from another thread, nor throw a C++ exception. It returns 0
 * when the segment is processed. Any other number is an error of the function: the job is not tried again elsewhere,
 * and the user is told what `fail` was told. What it prints goes to the node's log.
 *
 * This interface never changes within a version; structures may grow at their end (see `struct_bytes`).
 */
#ifndef SECTOR_UDF_H
#define SECTOR_UDF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. */
#define SECTOR_UDF_ABI_VERSION 1u

/* How the bytes of a segment fall into records. */
#define SECTOR_RECORDS_FILE 0u  /* the whole file is one record, and one segment */
#define SECTOR_RECORDS_FIXED 1u /* records of `record_bytes` bytes */
#define SECTOR_RECORDS_LINES 2u /* lines that end with '\n'; the last of a file may lack it */
#define SECTOR_RECORDS_INDEX 3u /* records of any length, which an index tells apart: see `sector_stream` */

/* For `fail`: the error belongs to no record. */
#define SECTOR_NO_RECORD UINT64_MAX

typedef struct sector_input sector_input;
typedef struct sector_stream sector_stream;
typedef struct sector_output sector_output;

/* One segment: whole records of one file. All of it is read-only and lives until the function returns. */
struct sector_input {
    uint32_t struct_bytes;  /* bytes of this structure as the caller knows it; a later caller's may be larger */
    uint32_t record_format; /* SECTOR_RECORDS_... */
    const uint8_t *bytes;   /* the segment's bytes; never NULL, also when there are none */
    uint64_t length;        /* how many */
    const char *path;       /* path of the file in Sector, UTF-8, ends with NUL */
    uint64_t segment;       /* number of the segment in the stage's input, from 0 */
    uint64_t from;          /* where in the file the segment begins, in bytes */
    uint32_t record_bytes;  /* length of a record for SECTOR_RECORDS_FIXED, else 0 */
    uint32_t buckets;       /* number of buckets of the output, at least 1 */
    /* The value of a parameter given with `--param NAME=VALUE` (UTF-8, ends with NUL), or NULL if it was not given. */
    const char *(*parameter)(const sector_input *input, const char *name);
    const void *host; /* the caller's own */
    uint32_t stream_bytes; /* bytes of a `sector_stream` as the caller knows it: they lie so far apart */
    uint32_t stream_count; /* the job's input streams, at least 1 */
    const sector_stream *streams; /* what of each goes with the segment; use `sector_stream_at`. The first is the segment */
    /* The bytes of a side file; use `sector_side_file`. */
    const uint8_t *(*side_file)(const sector_input *input, const char *name, uint64_t *length);
};

/* The bytes of the side file that was given with `--side NAME=PATH`, and in `length` how many; NULL if it was not given, or
 * by an SPE that is older than side files, and never NULL where it has no bytes. They are read-only, the same in every call
 * of the stage, and live until the function returns. */
static inline const uint8_t *sector_side_file(const sector_input *input, const char *name, uint64_t *length) {
    return input->struct_bytes >= offsetof(sector_input, side_file) + sizeof input->side_file
               ? input->side_file(input, name, length)
               : NULL;
}

/* What of one input stream goes with a segment: whole records of one file. Where the job's streams are aligned by record,
 * all have as many records; where by file, each has a whole file. */
struct sector_stream {
    const uint8_t *bytes;   /* never NULL, also when there are none */
    uint64_t length;        /* how many */
    const char *path;       /* path of the file in Sector, UTF-8, ends with NUL */
    uint64_t from;          /* where in the file the bytes begin */
    uint32_t record_format; /* SECTOR_RECORDS_... */
    uint32_t record_bytes;  /* length of a record for SECTOR_RECORDS_FIXED, else 0 */
    /* For SECTOR_RECORDS_INDEX, where in the file each record begins, and then where the last one ends: record `i` is
     * `starts[i + 1] - starts[i]` bytes at `bytes + (starts[i] - from)`. Little-endian 64-bit numbers; else NULL. */
    const uint64_t *starts;
    uint64_t record_count; /* how many records `starts` tells of */
};

/* What of stream `at`, from 0, goes with the segment; NULL where the job has no such stream. */
static inline const sector_stream *sector_stream_at(const sector_input *input, uint32_t at) {
    return at < input->stream_count
               ? (const sector_stream *)(const void *)((const char *)input->streams + (size_t)at * input->stream_bytes)
               : NULL;
}

/* Where results go. Pass the pointer that the function got, unchanged. */
struct sector_output {
    uint32_t struct_bytes; /* bytes of this structure as the caller knows it */
    uint32_t reserved;
    /* Adds one record to a bucket: `bucket` modulo the number of buckets. The bytes are copied. Not 0: the output is
     * closed (a full disk, a stopped job) and the function must return, with that number. */
    int32_t (*emit)(sector_output *output, uint64_t bucket, const void *bytes, uint64_t length);
    /* As `emit`, for several records whose bytes follow each other; the faster way where there are many small ones. */
    int32_t (*emit_records)(sector_output *output, uint64_t bucket, const void *bytes, uint64_t length, uint64_t records);
    /* Says how many bytes of the segment are processed. Cheap; call it now and then in long work: it moves the job's
     * progress bar, and who neither says this nor emits anything for long (an hour, if the nodes' settings say nothing
     * else) counts as stuck. */
    void (*progress)(sector_output *output, uint64_t bytes_done);
    /* Says why the function is about to return an error, and for which record of the segment (or SECTOR_NO_RECORD).
     * `message` is UTF-8 and ends with NUL; it is copied. */
    void (*fail)(sector_output *output, uint64_t record, const char *message);
    void *host; /* the caller's own */
    /* Adds to one of the job's counters; use `sector_count`. */
    void (*count)(sector_output *output, const char *name, uint64_t count);
};

/* Adds to one of the job's counters, which `sector job ID` shows. A name (UTF-8, ends with NUL) has 1 to 64 bytes without
 * control characters, and a stage 64 names at most: more are an error of the function. What a segment counts is counted once,
 * however often it is tried, and not at all where it fails. */
static inline void sector_count(sector_output *output, const char *name, uint64_t count) {
    if (output->struct_bytes >= offsetof(sector_output, count) + sizeof output->count) {
        output->count(output, name, count);
    } else {
        output->fail(output, SECTOR_NO_RECORD, "the SPE is older than the library: build it for the node's version");
    }
}

/* The hash that Sphere uses for keys (FNV-1a, 64 bits): `emit(output, sector_key_hash(key, n), ...)` brings equal keys
 * to the same bucket, whatever language the functions are written in. */
static inline uint64_t sector_key_hash(const void *key, size_t length) {
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t i;
    for (i = 0; i < length; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Before each function that Sphere shall find. */
#ifdef __cplusplus
#define SECTOR_UDF_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define SECTOR_UDF_EXPORT __attribute__((visibility("default")))
#endif

/* Once in each library: the symbol by which Sphere knows what the library was built for. */
#define SECTOR_UDF_LIBRARY                                                                                             \
    SECTOR_UDF_EXPORT uint32_t sector_udf_abi_version(void);                                                           \
    SECTOR_UDF_EXPORT uint32_t sector_udf_abi_version(void) { return SECTOR_UDF_ABI_VERSION; }

/* Once for a function, if it is to declare the parameters that it knows, with a comma after each: a job that gives it another
 * one is refused before it begins. SECTOR_UDF_PARAMETERS(count_words, "shortest,longest,") */
#define SECTOR_UDF_PARAMETERS(function, names)                                                                         \
    __attribute__((used)) static const char sector_udf_parameters_##function[] =                                       \
        "\001sector udf parameters " #function "=" names "\001";

#ifdef __cplusplus
}
#endif
#endif
