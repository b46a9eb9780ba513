/* SPDX-License-Identifier: MIT */
#include "core/base/hostlock.h"

#include "core/base/entropy.h"
#include "core/base/err.h"
#include "core/base/table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define AGAIN_MOST 16  /* a file that is made or removed at the same time is looked for again */
#define PLAIN_MOST 180 /* bytes of a file's name that say the lock's */

/* ---- the directory ---------------------------------------------------------------------------------------------- */

/* File systems that other hosts may share: a lock there may be everybody's, or nobody's, and asking may take its time.
 */
static bool is_shared(int dir)
{
    static const uint32_t kinds[] = {
        0x6969 /* NFS */,     0xff534d42 /* CIFS */, 0xfe534d42 /* SMB2 */, 0x517b /* SMB */,
        0x5346414f /* AFS */, 0x00c36400 /* Ceph */, 0x01161970 /* GFS2 */, 0x7461636f /* OCFS2 */};
    struct statfs fs;

    if (fstatfs(dir, &fs) != 0)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((uint32_t)fs.f_type == kinds[i])
            return true;
    return false;
}

static const char *fault_of(int dir)
{
    struct stat st;

    if (fstat(dir, &st) != 0)
        return strerror(errno);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return "it belongs to another user";
    if ((st.st_mode & S_IWOTH) != 0)
        return "everybody may write to it";
    return is_shared(dir) ? "it is not on a file system of this host alone" : NULL;
}

int rdl__hostlock_dir(const char *path, int *ret_dir, rdl_err_t *err)
{
    const char *fault = NULL;
    size_t len = strlen(path);
    char bare[PATH_MAX];
    int dir;

    while (len > 1 && path[len - 1] == '/') /* behind a link it would have that followed */
        len--;
    if (len >= sizeof bare)
        return rdl__err_set(err, RDL_EINVAL, "local_dir %s cannot be used: %s", path, strerror(ENAMETOOLONG));
    memcpy(bare, path, len);
    bare[len] = '\0';
    if (mkdir(bare, 0700) != 0 && errno != EEXIST)
        return rdl__err_set(err, RDL_EINVAL, "local_dir %s cannot be made: %s", path, strerror(errno));
    if ((dir = open(bare, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return rdl__err_set(err, RDL_EINVAL, "local_dir %s cannot be used: %s", path, strerror(errno));
    if ((fault = fault_of(dir)) != NULL) {
        close(dir);
        return rdl__err_set(err, RDL_EINVAL, "local_dir %s cannot be used: %s", path, fault);
    }
    (void)flock(dir, LOCK_SH | LOCK_NB); /* tmpfiles.d(5): what is locked is not cleaned up */
    *ret_dir = dir;
    return RDL_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_-:,@+=", c) != NULL;
}

/* The file's name is the lock's, as people write it, with %hh for what is not plain. A long one ends in two hashes of
 * the whole name and its length. */
static void file_name(const char *name, size_t len, char to[NAME_MAX + 1])
{
    size_t n = 0, i = 0;

    for (; i < len && n + 3 <= PLAIN_MOST; i++) {
        unsigned char c = (unsigned char)name[i];

        if (c != '\0' && is_plain(c))
            to[n++] = (char)c;
        else
            n += (size_t)snprintf(to + n, 4, "%%%02x", c);
    }
    if (i < len)
        (void)snprintf(to + n, NAME_MAX + 1 - n, "~%016llx%016llx%zx", (unsigned long long)rdl__hash(name, len),
                       (unsigned long long)rdl__hash(name + PLAIN_MOST / 3, len - PLAIN_MOST / 3), len);
    else
        (void)snprintf(to + n, NAME_MAX + 1 - n, ".lock");
}

/* Where this process may not write so much, the kernel ends it. */
static bool may_write(size_t len)
{
    struct rlimit most;

    return getrlimit(RLIMIT_FSIZE, &most) == 0 && len <= most.rlim_cur;
}

/* It is the directory's group's, whatever that of its user is, and has its name when it is whole: others who find it
 * can open it. What is inside is for people: where there is no room for it, the lock works as well. */
static int make_file(int dir, const char *file, const char *name, size_t len)
{
    char draft[32];
    uint64_t random;
    struct stat st;
    int fd, why;

    if (rdl__entropy(&random, sizeof random) < 0)
        return -1;
    (void)snprintf(draft, sizeof draft, ".%016llx", (unsigned long long)random);
    if ((fd = openat(dir, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
        return fd;
    if (fstat(dir, &st) == 0 && fchown(fd, (uid_t)-1, st.st_gid) == 0)
        (void)fchmod(fd, 0600 | (st.st_mode & S_IRGRP));
    if (may_write(len + 1) && (write(fd, name, len) < 0 || write(fd, "\n", 1) < 0))
        errno = 0;
    why = linkat(dir, draft, dir, file, 0) == 0 ? 0 : errno;
    (void)unlinkat(dir, draft, 0);
    if (why == 0)
        return fd;
    close(fd);
    errno = why;
    return -1;
}

static int open_file(int dir, const char *file, const char *name, size_t len)
{
    int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    return fd >= 0 || errno != ENOENT ? fd : make_file(dir, file, name, len);
}

/* Is the file that was locked still the one of that name? Somebody may have removed it. */
static bool is_there(int dir, const char *file, int fd)
{
    struct stat here, there;

    return fstat(fd, &here) == 0 && fstatat(dir, file, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

int rdl__hostlock_try(int dir, const char *name, size_t len, int *ret_lock)
{
    char file[NAME_MAX + 1];

    file_name(name, len, file);
    for (int i = 0; i < AGAIN_MOST; i++) {
        int fd = open_file(dir, file, name, len), why;

        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0)
            return RDL_EHOST;
        why = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (why == 0 && is_there(dir, file, fd)) {
            *ret_lock = fd;
            return RDL_OK;
        }
        close(fd);
        errno = why;
        if (why != 0 && why != EINTR)
            return why == EWOULDBLOCK ? RDL_ETIMEDOUT : RDL_EHOST;
    }
    errno = ESTALE;
    return RDL_EHOST;
}

/* By an unlock first, which frees it for all descriptors that a fork has made of this one. */
void rdl__hostlock_leave(int lock)
{
    if (lock < 0)
        return;
    (void)flock(lock, LOCK_UN);
    close(lock);
}
