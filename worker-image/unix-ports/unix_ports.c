/* Turns a program's loopback ports into Unix sockets.
 *
 * Browsers serve debuggers, and drivers serve sessions, on TCP ports of the loopback interface, where any page of the
 * browser in the same container can knock. None of these programs can listen on a Unix socket instead. So the agent
 * starts them with this library preloaded:
 *
 * - A stream socket that the program binds to 127.0.0.1:PORT becomes a Unix socket named UNIX_PORTS_DIR/PORT. Port 0
 *   takes a free number. The program still sees the address it asked for.
 * - A stream socket cannot be bound to the loopback address of IPv6, as on a host without IPv6. Drivers that listen on
 *   both then do with the first.
 * - With UNIX_PORTS_CONNECT set, a connection to 127.0.0.1:PORT goes to that Unix socket where there is one. Drivers
 *   have it, browsers do not: nothing that a page asks its browser for reaches a socket of that directory.
 *
 * The library keeps no state. Whether a descriptor is one of its sockets shows in the name the kernel has for it.
 * It makes system calls itself, so that a program may also be linked with it statically. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* The number of a peer that has none, as clients of the loopback have numbers that mean nothing. */
#define PEER_PORT 1
/* Where numbers for port 0 begin; the kernel's own begin below. */
#define FIRST_FREE_PORT 61000
#define LAST_PORT 65535

static char directory[64];
static size_t directory_length;
static bool redirects_connections;

__attribute__((constructor)) static void configure(void) {
    const char *named = getenv("UNIX_PORTS_DIR");
    if (named == NULL || strlen(named) >= sizeof directory) return;
    directory_length = strlen(strcpy(directory, named));
    redirects_connections = getenv("UNIX_PORTS_CONNECT") != NULL;
    /* What the program starts has ports of its own to think of. */
    unsetenv("LD_PRELOAD");
    unsetenv("UNIX_PORTS_DIR");
    unsetenv("UNIX_PORTS_CONNECT");
}

static void name_port(struct sockaddr_un *name, unsigned port) {
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    snprintf(name->sun_path, sizeof name->sun_path, "%s/%u", directory, port);
}

/* The port that a Unix socket's name stands for; 0 where it is no socket of ours. */
static unsigned port_of(const struct sockaddr_un *name, socklen_t length) {
    if (directory_length == 0 || length <= offsetof(struct sockaddr_un, sun_path) || name->sun_family != AF_UNIX) return 0;
    if (strncmp(name->sun_path, directory, directory_length) != 0 || name->sun_path[directory_length] != '/') return 0;
    return (unsigned)strtoul(name->sun_path + directory_length + 1, NULL, 10);
}

static unsigned own_port(int fd) {
    struct sockaddr_un name = {0};
    socklen_t length = sizeof name;
    if (syscall(SYS_getsockname, fd, &name, &length) != 0) return 0;
    return port_of(&name, length);
}

static unsigned peers_port(int fd) {
    struct sockaddr_un name = {0};
    socklen_t length = sizeof name;
    if (syscall(SYS_getpeername, fd, &name, &length) != 0) return 0;
    return port_of(&name, length);
}

static bool is_ours(int fd) { return directory_length != 0 && (own_port(fd) != 0 || peers_port(fd) != 0); }

/* Writes 127.0.0.1:PORT as the kernel would. */
static void tell(unsigned port, struct sockaddr *address, socklen_t *length) {
    struct sockaddr_in told = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    told.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(address, &told, *length < sizeof told ? *length : sizeof told);
    *length = sizeof told;
}

/* The loopback port that a call names for a TCP socket; -1 where it is something else. */
static int loopback_port(int fd, const struct sockaddr *address, socklen_t length) {
    const struct sockaddr_in *internet = (const struct sockaddr_in *)address;
    int type = 0;
    socklen_t size = sizeof type;
    if (directory_length == 0 || address == NULL || length < sizeof *internet || address->sa_family != AF_INET) return -1;
    if (ntohl(internet->sin_addr.s_addr) >> 24 != 127) return -1;
    if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) return -1;
    return ntohs(internet->sin_port);
}

/* Whether an address is a loopback address in the notation of IPv6, and the socket one of TCP. */
static bool is_ipv6_loopback(int fd, const struct sockaddr *address, socklen_t length) {
    const struct sockaddr_in6 *internet = (const struct sockaddr_in6 *)address;
    int type = 0;
    socklen_t size = sizeof type;
    if (directory_length == 0 || address == NULL || length < sizeof *internet || address->sa_family != AF_INET6) return false;
    const struct in6_addr *host = &internet->sin6_addr;
    if (!IN6_IS_ADDR_LOOPBACK(host) && !(IN6_IS_ADDR_V4MAPPED(host) && host->s6_addr[12] == 127)) return false;
    return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* Puts a Unix socket in the place of a TCP socket, under the same number and with the same flags. */
static int replace(int fd) {
    int status = fcntl(fd, F_GETFL), flags = fcntl(fd, F_GETFD);
    int fresh = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fresh < 0) return -1;
    if (status & O_NONBLOCK) fcntl(fresh, F_SETFL, O_NONBLOCK);
    int done = (int)syscall(SYS_dup3, fresh, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
    int reason = errno;
    close(fresh);
    errno = reason;
    return done < 0 ? -1 : 0;
}

/* Whether somebody still listens at a name. */
static bool is_served(const struct sockaddr_un *name) {
    int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool served = fd >= 0 && syscall(SYS_connect, fd, name, sizeof *name) == 0;
    if (fd >= 0) close(fd);
    return served;
}

static int bind_port(int fd, unsigned port) {
    struct sockaddr_un name;
    name_port(&name, port);
    if (syscall(SYS_bind, fd, &name, sizeof name) == 0) return 0;
    if (errno != EADDRINUSE || is_served(&name)) return -1;
    /* A program that ended left its name behind. */
    unlink(name.sun_path);
    return (int)syscall(SYS_bind, fd, &name, sizeof name);
}

int bind(int fd, const struct sockaddr *address, socklen_t length) {
    if (is_ipv6_loopback(fd, address, length)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int port = loopback_port(fd, address, length);
    if (port < 0) return (int)syscall(SYS_bind, fd, address, length);
    if (replace(fd) != 0) return -1;
    if (port != 0) return bind_port(fd, (unsigned)port);
    for (unsigned free_port = FIRST_FREE_PORT; free_port <= LAST_PORT; free_port++) {
        if (bind_port(fd, free_port) == 0) return 0;
        if (errno != EADDRINUSE) return -1;
    }
    return -1;
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    int port = redirects_connections ? loopback_port(fd, address, length) : -1;
    struct sockaddr_un name;
    if (port > 0) name_port(&name, (unsigned)port);
    if (port <= 0 || access(name.sun_path, F_OK) != 0) return (int)syscall(SYS_connect, fd, address, length);
    if (replace(fd) != 0) return -1;
    return (int)syscall(SYS_connect, fd, &name, sizeof name);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    if (address == NULL || length == NULL || own_port(fd) == 0) return (int)syscall(SYS_accept4, fd, address, length, flags);
    int accepted = (int)syscall(SYS_accept4, fd, NULL, NULL, flags);
    if (accepted >= 0) tell(PEER_PORT, address, length);
    return accepted;
}

int accept(int fd, struct sockaddr *address, socklen_t *length) { return accept4(fd, address, length, 0); }

int getsockname(int fd, struct sockaddr *address, socklen_t *length) {
    unsigned port = own_port(fd);
    if (port == 0 && peers_port(fd) != 0) port = PEER_PORT;
    if (port == 0) return (int)syscall(SYS_getsockname, fd, address, length);
    tell(port, address, length);
    return 0;
}

int getpeername(int fd, struct sockaddr *address, socklen_t *length) {
    unsigned port = peers_port(fd);
    struct sockaddr_un peer;
    socklen_t size = sizeof peer;
    if (port == 0 && own_port(fd) != 0 && syscall(SYS_getpeername, fd, &peer, &size) == 0) port = PEER_PORT;
    if (port == 0) return (int)syscall(SYS_getpeername, fd, address, length);
    tell(port, address, length);
    return 0;
}

/* A Unix socket has no delays to turn off, and nobody is to mind. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t length) {
    int done = (int)syscall(SYS_setsockopt, fd, level, option, value, length);
    if (done != 0 && (level == IPPROTO_TCP || level == IPPROTO_IP) && is_ours(fd)) return 0;
    return done;
}
