#include "launcher.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

static int launcher = -1; /* a socket */

static bool say(const unsigned char *word, size_t n) {
    return launcher >= 0 && send(launcher, word, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

void launcher_report_start(int rank) {
    const char *name = getenv("MOAO_LAUNCHER");
    const unsigned char word = LAUNCHER_STARTED;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (name == NULL || strlen(name) > sizeof a.sun_path - 2)
        return;
    memcpy(a.sun_path + 1, name, strlen(name)); /* of an abstract socket: a zero before it */
    const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    launcher = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (launcher >= 0 && connect(launcher, (struct sockaddr *)&a, len) == 0 && rank == 0)
        say(&word, 1);
    unsetenv("MOAO_LAUNCHER");
}

bool launcher_report_end(int code) {
    const unsigned char word[2] = {LAUNCHER_ENDED, (unsigned char)code};
    return say(word, sizeof word);
}

void launcher_leave(int code) {
    const unsigned char word[2] = {LAUNCHER_LEAVES, (unsigned char)code};
    const struct timespec patience = {.tv_sec = 5};
    if (!say(word, sizeof word))
        return;
    signal(SIGTERM, SIG_DFL);
    nanosleep(&patience, NULL);
}
