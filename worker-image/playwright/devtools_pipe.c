/* What Playwright takes for a browser: hands the two ends of its pipe to the agent, and stays for as long as the agent has them.
 *
 * Playwright speaks with a browser that it launches over the descriptors 3 and 4 of the child. The worker's browser runs
 * already, so the agent takes them and carries the messages. WARMPOOL_DEVTOOLS_PIPE names its socket. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* From which a browser reads, and to which it writes. */
enum { FROM_CLIENT = 3, TO_CLIENT = 4 };

static int fail(const char *what) {
    perror(what);
    return EXIT_FAILURE;
}

int main(void) {
    const char *path = getenv("WARMPOOL_DEVTOOLS_PIPE");
    struct sockaddr_un agent = {.sun_family = AF_UNIX};
    if (path == NULL || strlen(path) >= sizeof agent.sun_path) {
        fputs("devtools-pipe: WARMPOOL_DEVTOOLS_PIPE names no socket\n", stderr);
        return EXIT_FAILURE;
    }
    strcpy(agent.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&agent, sizeof agent) != 0) return fail("devtools-pipe: the agent's socket");

    int ends[2] = {FROM_CLIENT, TO_CLIENT};
    char byte = 0;
    struct iovec content = {.iov_base = &byte, .iov_len = 1};
    union {
        char space[CMSG_SPACE(sizeof ends)];
        struct cmsghdr aligned;
    } control = {0};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof ends);
    memcpy(CMSG_DATA(part), ends, sizeof ends);
    if (sendmsg(fd, &message, MSG_NOSIGNAL) != 1) return fail("devtools-pipe: the ends of the pipe");

    /* They are the agent's now: while they are open here, nobody sees that it has closed them. */
    close(FROM_CLIENT);
    close(TO_CLIENT);
    while (read(fd, &byte, 1) > 0) continue;
    return EXIT_SUCCESS;
}
