/* Starts xkbcomp for the X server without a shell.
 *
 * The server has its keymap compiled by xkbcomp, and starts that as popen does, with /bin/sh between the two. No shell can be
 * executed in a worker. This library, preloaded into the server, takes such a command apart and executes the one program. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHELL "/bin/sh"
#define PROGRAM "/usr/local/bin/xkbcomp"
#define MAX_COMMAND 4096
#define MAX_WORDS 32

__attribute__((constructor)) static void configure(void) {
    unsetenv("LD_PRELOAD");
}

/* Cuts a command at its blanks. Quotes hold words together, and are all that it knows of a shell. */
static bool split(char *command, char *words[MAX_WORDS + 1]) {
    size_t count = 0;
    char *from = command, *to = command;
    while (*from != '\0') {
        if (*from == ' ') {
            from++;
            continue;
        }
        if (count == MAX_WORDS) return false;
        words[count++] = to;
        for (bool quoted = false; *from != '\0' && (quoted || *from != ' '); from++) {
            if (*from == '"') quoted = !quoted;
            else *to++ = *from;
        }
        if (*from == ' ') from++;
        *to++ = '\0';
    }
    words[count] = NULL;
    return count > 0;
}

/* In place of the C library's. The server calls it for a shell, as execl(SHELL, "sh", "-c", COMMAND, NULL). */
int execl(const char *path, const char *first, ...) {
    char text[MAX_COMMAND], *words[MAX_WORDS + 1];
    va_list arguments;
    va_start(arguments, first);
    const char *option = va_arg(arguments, const char *);
    const char *command = option == NULL ? NULL : va_arg(arguments, const char *);
    va_end(arguments);
    if (strcmp(path, SHELL) != 0 || command == NULL || strlen(command) >= sizeof text || !split(strcpy(text, command), words)) {
        errno = EACCES;
        return -1;
    }
    return execv(PROGRAM, words);
}
