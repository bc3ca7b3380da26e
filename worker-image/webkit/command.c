/* Commands: one line each, as the query of a URL; one line in answer, in the same order.
 *
 *   do=ping                                         -> ok
 *   do=warm                                         -> ok <version> <user agent>, once the first page answers and has painted
 *   do=open&url=U                                   -> ok; the first page goes there, and once it has loaded or failed,
 *                                                      the shell says "opened", and the reason of a failure
 *   do=settings[&timezone=Z][&locales=A,B][&user_agent=U][&dark=0|1][&reduced=0|1]
 *             [&permissions=A,B][&latitude=N&longitude=N&accuracy=N][&width=W&height=H]
 *                                                   -> ok, once every page sees them; a time zone empties the pages,
 *                                                      and one that WebKit does not know is "ok unknown"
 *   do=pages&most=N&longest=C                       -> ok and a list, see pages.c; texts of C characters at most
 *   do=act&page=ID&act=show|back|forward|reload|open[&url=U]
 *                                                   -> ok, or "ok none" when there is no such page
 *   do=block&folder=F[&rules=FILE]                -> ok, once every page follows the content rules that the file has, or the
 *                                                      folder has compiled
 *   do=captchas&document=SCRIPT&page=SCRIPT         -> ok; later documents run both, and for each text that the first one sends
 *                                                      the shell says "captchas", a number and the text, percent-encoded
 *   do=reply&number=N&text=T                        -> ok: answers that text
 *   do=cookies                                      -> ok and each cookie as name/value/domain/path/expires/flags, the texts
 *                                                      percent-encoded, the time in seconds or -1, the flags h (http only),
 *                                                      s (secure) and one of N, L, S (which requests of other sites carry it)
 *   do=set_cookies&cookies=LIST                     -> ok, once these are set
 *   do=origins                                      -> ok and the origins that may have stored something
 *   do=visit&origin=O&script=S&argument=T[&first=1] -> ok and what the script, a function, makes of the argument in a document of
 *                                                      that origin: in a view that nobody sees, or in the first one
 *   do=ask&script=S&argument=T                      -> ok and what the script makes of it in the first page; nothing if that is
 *                                                      none of the web
 *   do=leave                                        -> ok, once the first page is blank again
 *   do=paint                                        -> ok, once the pages have painted what scripts have changed
 *   do=quit                                         -> ok, and the browser ends
 * Anything else, and what cannot be done, is answered with "failed" and a reason. */
#include "shell.h"

#include <fcntl.h>
#include <gio/gunixinputstream.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where the answers go. */
static FILE *answers;

/* Keeps the standard output for the answers. The library prints there too, as webkit://gpu/stdout does, and what it starts
 * would inherit it: both have the standard error in its place. */
void command_open_answers(void) {
  answers = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0), "w");
  if (!answers || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    g_error("no place for the answers");
  }
}

void command_answer(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(answers, format, arguments);
  va_end(arguments);
  putc('\n', answers);
  fflush(answers);
}

static WebKitWebView *first_view(const Shell *shell) { return shell->views ? shell->views->data : NULL; }

static void on_painted(GObject *view, GAsyncResult *result, gpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  cairo_surface_t *surface = webkit_web_view_get_snapshot_finish(WEBKIT_WEB_VIEW(view), result, &error);
  if (!surface) {
    command_answer("failed no frame: %s", error->message);
    return;
  }
  cairo_surface_destroy(surface);
  command_answer("ok %u.%u.%u %s", webkit_get_major_version(), webkit_get_minor_version(), webkit_get_micro_version(),
                 webkit_settings_get_user_agent(webkit_web_view_get_settings(WEBKIT_WEB_VIEW(view))));
}

static void on_evaluated(GObject *view, GAsyncResult *result, gpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_autoptr(JSCValue) value = webkit_web_view_evaluate_javascript_finish(WEBKIT_WEB_VIEW(view), result, &error);
  if (!value) {
    command_answer("failed no script: %s", error->message);
    return;
  }
  webkit_web_view_get_snapshot(WEBKIT_WEB_VIEW(view), WEBKIT_SNAPSHOT_REGION_VISIBLE, WEBKIT_SNAPSHOT_OPTIONS_NONE,
                               NULL, on_painted, NULL);
}

static void warm(const Shell *shell) {
  WebKitWebView *view = first_view(shell);
  if (!view) {
    command_answer("failed no page");
    return;
  }
  webkit_web_view_evaluate_javascript(view, "document.readyState", -1, NULL, NULL, NULL, on_evaluated, NULL);
}

/* Marks the handlers of the page that "do=open" opens. */
static const char opened_by_us;

/* Once a load has ended, with the reason of a failure; a failure comes before the end. */
static void opened(WebKitWebView *view, const char *reason) {
  g_signal_handlers_disconnect_matched(view, G_SIGNAL_MATCH_DATA, 0, 0, NULL, NULL, (gpointer)&opened_by_us);
  command_answer("opened %s", reason);
}

static void on_load_changed(WebKitWebView *view, WebKitLoadEvent event, gpointer data) {
  (void)data;
  if (event == WEBKIT_LOAD_FINISHED) {
    opened(view, "");
  }
}

static gboolean on_load_failed(WebKitWebView *view, WebKitLoadEvent event, const char *url, GError *error, gpointer data) {
  (void)event, (void)url, (void)data;
  /* A download, and what a client opens instead, interrupt it. */
  gboolean interrupted = error->domain == WEBKIT_NETWORK_ERROR ? error->code == WEBKIT_NETWORK_ERROR_CANCELLED
                                                               : error->domain == WEBKIT_POLICY_ERROR;
  g_autofree char *reason = g_strdelimit(g_strdup(error->message), "\r\n", ' ');
  opened(view, interrupted ? "" : reason);
  return FALSE;
}

static void open_page(const Shell *shell, GHashTable *arguments) {
  WebKitWebView *view = first_view(shell);
  const char *url = g_hash_table_lookup(arguments, "url");
  if (!view || !url) {
    command_answer("failed no %s", view ? "url" : "page");
    return;
  }
  g_signal_connect(view, "load-failed", G_CALLBACK(on_load_failed), (gpointer)&opened_by_us);
  g_signal_connect(view, "load-changed", G_CALLBACK(on_load_changed), (gpointer)&opened_by_us);
  webkit_web_view_load_uri(view, url);
  command_answer("ok");
}

static void change_settings(Shell *shell, GHashTable *arguments) {
  const char *timezone = g_hash_table_lookup(arguments, "timezone");
  const char *locales = g_hash_table_lookup(arguments, "locales");
  const char *user_agent = g_hash_table_lookup(arguments, "user_agent");
  const char *width = g_hash_table_lookup(arguments, "width");
  const char *height = g_hash_table_lookup(arguments, "height");
  const char *dark = g_hash_table_lookup(arguments, "dark");
  const char *reduced = g_hash_table_lookup(arguments, "reduced");
  /* First, for what follows concerns the context. */
  if (timezone && !context_replace(shell, timezone)) {
    command_answer("ok unknown");
    return;
  }
  if (locales) {
    g_auto(GStrv) languages = g_strsplit(locales, ",", -1);
    webkit_web_context_set_preferred_languages(shell->context, (const char *const *)languages);
  }
  if (user_agent) {
    webkit_settings_set_user_agent(shell->settings, user_agent);
  }
  /* What a desktop prefers, pages prefer. */
  if (dark) {
    g_object_set(gtk_settings_get_default(), "gtk-application-prefer-dark-theme", g_str_equal(dark, "1"), NULL);
  }
  if (reduced) {
    g_object_set(gtk_settings_get_default(), "gtk-enable-animations", !g_str_equal(reduced, "1"), NULL);
  }
  permissions_set(shell, g_hash_table_lookup(arguments, "permissions"), g_hash_table_lookup(arguments, "latitude"),
                  g_hash_table_lookup(arguments, "longitude"), g_hash_table_lookup(arguments, "accuracy"));
  if (width && height) {
    shell->width = (int)g_ascii_strtoll(width, NULL, 10);
    shell->height = (int)g_ascii_strtoll(height, NULL, 10);
    screen_resize(shell->width, shell->height);
    if (!window_resize_all(shell)) {
      command_answer("failed a window kept its size");
      return;
    }
  }
  command_answer("ok");
}

static void watch_captchas(const Shell *shell, GHashTable *arguments) {
  const char *document = g_hash_table_lookup(arguments, "document");
  const char *page = g_hash_table_lookup(arguments, "page");
  command_answer(document && page && captchas_watch(shell, document, page) ? "ok" : "failed no scripts, or not the first");
}

static guint number(GHashTable *arguments, const char *name) {
  const char *text = g_hash_table_lookup(arguments, name);
  return text ? (guint)g_ascii_strtoull(text, NULL, 10) : 0;
}

/* A document that has gone needs no answer any more. */
static void reply(GHashTable *arguments) {
  const char *text = g_hash_table_lookup(arguments, "text");
  captchas_reply(number(arguments, "number"), text ? text : "");
  command_answer("ok");
}

static void list_pages(const Shell *shell, GHashTable *arguments) {
  g_autofree char *list = page_list(shell, number(arguments, "most"), number(arguments, "longest"));
  command_answer("ok %s", list);
}

static void act(const Shell *shell, GHashTable *arguments) {
  const char *page = g_hash_table_lookup(arguments, "page");
  const char *verb = g_hash_table_lookup(arguments, "act");
  switch (page && verb ? page_act(shell, page, verb, g_hash_table_lookup(arguments, "url")) : PAGE_NO_ACT) {
  case PAGE_DONE:
    command_answer("ok");
    break;
  case PAGE_MISSING:
    command_answer("ok none");
    break;
  case PAGE_NO_ACT:
    command_answer("failed not an act on a page");
    break;
  }
}

/* Views that have not painted yet. */
typedef struct {
  guint left;
  guint limit; /* a timer; 0 once the command was answered */
} Painting;

static void painting_answer(Painting *painting) {
  painting->limit = 0;
  command_answer("ok");
}

/* A page that shows a dialog or hangs paints nothing. */
static gboolean on_painting_limit(gpointer data) {
  painting_answer(data);
  return G_SOURCE_REMOVE;
}

static void painting_step(Painting *painting) {
  if (--painting->left > 0) {
    return;
  }
  if (painting->limit) {
    g_source_remove(painting->limit);
    painting_answer(painting);
  }
  g_free(painting);
}

static void on_view_painted(GObject *view, GAsyncResult *result, gpointer painting) {
  g_autoptr(JSCValue) value =
      webkit_web_view_call_async_javascript_function_finish(WEBKIT_WEB_VIEW(view), result, NULL);
  painting_step(painting);
}

static void paint(const Shell *shell) {
  Painting *painting = g_new0(Painting, 1);
  painting->left = 1;
  painting->limit = g_timeout_add_seconds(5, on_painting_limit, painting);
  for (const GList *at = shell->views; at; at = at->next) {
    if (gtk_widget_get_mapped(GTK_WIDGET(at->data))) {
      painting->left++;
      webkit_web_view_call_async_javascript_function(
          at->data, "await new Promise(then => requestAnimationFrame(() => requestAnimationFrame(then)))", -1, NULL,
          "warmpool", NULL, NULL, on_view_painted, painting);
    }
  }
  painting_step(painting);
}

static void visit(const Shell *shell, GHashTable *arguments) {
  const char *origin = g_hash_table_lookup(arguments, "origin");
  const char *script = g_hash_table_lookup(arguments, "script");
  const char *argument = g_hash_table_lookup(arguments, "argument");
  if (!origin || !script || !argument || !first_view(shell)) {
    command_answer("failed no page, or an argument is missing");
    return;
  }
  storage_visit(shell, origin, script, argument, g_hash_table_contains(arguments, "first"));
}

static void ask(const Shell *shell, GHashTable *arguments) {
  const char *script = g_hash_table_lookup(arguments, "script");
  const char *argument = g_hash_table_lookup(arguments, "argument");
  if (!script || !argument || !first_view(shell)) {
    command_answer("failed no page, or an argument is missing");
    return;
  }
  storage_ask_first(shell, script, argument);
}

static void obey(Shell *shell, const char *line) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GHashTable) arguments = g_uri_parse_params(line, -1, "&", G_URI_PARAMS_NONE, &error);
  const char *verb = arguments ? g_hash_table_lookup(arguments, "do") : NULL;
  if (g_strcmp0(verb, "ping") == 0) {
    command_answer("ok");
  } else if (g_strcmp0(verb, "warm") == 0) {
    warm(shell);
  } else if (g_strcmp0(verb, "open") == 0) {
    open_page(shell, arguments);
  } else if (g_strcmp0(verb, "pages") == 0) {
    list_pages(shell, arguments);
  } else if (g_strcmp0(verb, "paint") == 0) {
    paint(shell);
  } else if (g_strcmp0(verb, "act") == 0) {
    act(shell, arguments);
  } else if (g_strcmp0(verb, "block") == 0 && g_hash_table_contains(arguments, "folder")) {
    filter_block(shell, g_hash_table_lookup(arguments, "folder"), g_hash_table_lookup(arguments, "rules"));
  } else if (g_strcmp0(verb, "captchas") == 0) {
    watch_captchas(shell, arguments);
  } else if (g_strcmp0(verb, "reply") == 0) {
    reply(arguments);
  } else if (g_strcmp0(verb, "cookies") == 0) {
    storage_cookies(shell);
  } else if (g_strcmp0(verb, "set_cookies") == 0 && g_hash_table_contains(arguments, "cookies")) {
    storage_set_cookies(shell, g_hash_table_lookup(arguments, "cookies"));
  } else if (g_strcmp0(verb, "origins") == 0) {
    storage_origins(shell);
  } else if (g_strcmp0(verb, "visit") == 0) {
    visit(shell, arguments);
  } else if (g_strcmp0(verb, "ask") == 0) {
    ask(shell, arguments);
  } else if (g_strcmp0(verb, "leave") == 0 && first_view(shell)) {
    storage_leave(shell);
  } else if (g_strcmp0(verb, "quit") == 0) {
    command_answer("ok");
    gtk_main_quit();
  } else if (g_strcmp0(verb, "settings") == 0) {
    change_settings(shell, arguments);
  } else {
    command_answer("failed not a command");
  }
}

static void on_line(GObject *stream, GAsyncResult *result, gpointer data) {
  g_autofree char *line = g_data_input_stream_read_line_finish(G_DATA_INPUT_STREAM(stream), result, NULL, NULL);
  if (!line) {
    /* Nobody is there to tell us anything. */
    gtk_main_quit();
    return;
  }
  obey(data, line);
  g_data_input_stream_read_line_async(G_DATA_INPUT_STREAM(stream), G_PRIORITY_DEFAULT, NULL, on_line, data);
}

void command_listen(Shell *shell) {
  g_autoptr(GInputStream) input = g_unix_input_stream_new(STDIN_FILENO, FALSE);
  GDataInputStream *lines = g_data_input_stream_new(input);
  g_data_input_stream_read_line_async(lines, G_PRIORITY_DEFAULT, NULL, on_line, shell);
}
