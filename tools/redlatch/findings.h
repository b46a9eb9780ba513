/* SPDX-License-Identifier: MIT */
/* findings.h - what rdl_doctor has found, kept, and shown to people or programs. */
#ifndef REDLATCH_TOOL_FINDINGS_H
#define REDLATCH_TOOL_FINDINGS_H

#include <redlatch/doctor.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Zeroed: none. */
struct findings {
    rdl_finding_t *all; /* their strings are owned */
    size_t count, room;
    bool failed; /* there was no memory for one */
};

/* For rdl_doctor; `findings` is a struct findings. */
void findings_add(const rdl_finding_t *finding, void *findings);
void findings_done(struct findings *f);

/* The worst of them comes first; of the same severity, the first that was found. */
void findings_sort(struct findings *f);
rdl_severity_t findings_worst(const struct findings *f);

/* A paragraph for each, as wide as a terminal of `width` columns is (0: none); those that are fine are a line. */
void findings_print(FILE *out, const struct findings *f, int width);

/* One JSON object. False without memory. */
bool findings_print_json(FILE *out, const struct findings *f);

#endif
