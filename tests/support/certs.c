/* SPDX-License-Identifier: MIT */
#include "tests/support/certs.h"

#include "tests/support/wait.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Makes a key, and puts it and its certificate in place. */
#define NEW_KEY "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout made.key "
#define PUT "&& mv made.key \"$2.key\" && mv made.crt \"$2.crt\""

/* Run a line of shell in `dir`, with $2 and further on as given. */
static void run(const char *line, const char *dir, const char *name, const char *ca, const char *alt_names,
                const char *days)
{
    const char *argv[] = {"sh", "-c", line, "sh", dir, name, ca, alt_names, days, NULL};
    int status = 0, rc;
    pid_t pid;

    if ((rc = posix_spawnp(&pid, "sh", NULL, NULL, (char *const *)argv, environ)) != 0)
        die("cannot run a shell: %s", strerror(rc));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid: %s", strerror(errno));
    if (status != 0)
        die("openssl could not make the certificate of %s", name);
}

void certs_make_ca(const char *dir, const char *name)
{
    run("cd \"$1\" && openssl req -x509 " NEW_KEY "-out made.crt -days 2 -subj \"/CN=test CA $2\" 2>openssl.log " PUT
        " || { cat openssl.log; exit 1; }",
        dir, name, "", "", "");
}

void certs_issue(const char *dir, const char *ca, const char *name, const char *alt_names, int days)
{
    char *valid = must_format("%d", days);

    run("cd \"$1\" && { openssl req " NEW_KEY "-out made.csr -subj \"/CN=test $2\" -addext \"subjectAltName=$4\" && "
        "openssl x509 -req -in made.csr -CA \"$3.crt\" -CAkey \"$3.key\" -CAcreateserial -copy_extensions copy "
        "-out made.crt -days \"$5\"; } >openssl.log 2>&1 " PUT " || { cat openssl.log; exit 1; }",
        dir, name, ca, alt_names, valid);
    free(valid);
}
