/* Scripts in each document that look for challenges, and the way between them and who commands the shell.
 *
 * A script that looks runs where its page cannot see it. It sends texts; each has an answer, which the command "reply" brings.
 * A second script runs among the page's own and hears from the first one by an event. */
#include "shell.h"

/* The name of the scripts' world, and of the way out of it. */
static const char NAME[] = "captchas";

/* Messages that wait for an answer, by their numbers. */
static GHashTable *waiting;
static guint last;

static gboolean on_message(WebKitUserContentManager *content, JSCValue *text, WebKitScriptMessageReply *reply, gpointer data) {
  (void)content, (void)data;
  g_autofree char *plain = jsc_value_to_string(text);
  g_autofree char *escaped = g_uri_escape_string(plain, NULL, FALSE);
  g_hash_table_insert(waiting, GUINT_TO_POINTER(++last), webkit_script_message_reply_ref(reply));
  command_answer("%s %u %s", NAME, last, escaped);
  return TRUE;
}

static void add(const Shell *shell, const char *source, const char *world) {
  WebKitUserContentInjectedFrames frames = WEBKIT_USER_CONTENT_INJECT_ALL_FRAMES;
  WebKitUserScriptInjectionTime time = WEBKIT_USER_SCRIPT_INJECT_AT_DOCUMENT_START;
  WebKitUserScript *script = world ? webkit_user_script_new_for_world(source, frames, time, world, NULL, NULL)
                                   : webkit_user_script_new(source, frames, time, NULL, NULL);
  webkit_user_content_manager_add_script(shell->content, script);
  webkit_user_script_unref(script);
}

gboolean captchas_watch(const Shell *shell, const char *document_script, const char *page_script) {
  if (waiting || !webkit_user_content_manager_register_script_message_handler_with_reply(shell->content, NAME, NAME)) {
    return FALSE;
  }
  waiting = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)webkit_script_message_reply_unref);
  g_autofree char *signal = g_strconcat("script-message-with-reply-received::", NAME, NULL);
  g_signal_connect(shell->content, signal, G_CALLBACK(on_message), NULL);
  add(shell, document_script, NAME);
  add(shell, page_script, NULL);
  return TRUE;
}

void captchas_reply(guint number, const char *text) {
  gpointer key = GUINT_TO_POINTER(number);
  WebKitScriptMessageReply *reply = waiting ? g_hash_table_lookup(waiting, key) : NULL;
  if (!reply) {
    return;
  }
  g_autoptr(JSCContext) context = jsc_context_new();
  g_autoptr(JSCValue) value = jsc_value_new_string(context, text);
  webkit_script_message_reply_return_value(reply, value);
  g_hash_table_remove(waiting, key);
}
