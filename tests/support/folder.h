/* SPDX-License-Identifier: MIT */
/* folder.h - take away a folder with all that is in it, if it is there. */
#ifndef REDLATCH_TESTS_FOLDER_H
#define REDLATCH_TESTS_FOLDER_H

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>

static inline int folder_remove_one(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline bool folder_remove(const char *path)
{
    return nftw(path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT;
}

#endif
