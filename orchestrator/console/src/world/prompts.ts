// Questions that help a conversation along. All are open: none asks whether somebody remembers, none has a wrong answer.

import type { Kind } from './scene';

const ANYWHERE = [
  'What would you like to look at first?',
  'What do you like about this place?',
  'What would you do here on a quiet afternoon?',
  'Who would enjoy being here with us?',
  'Which sounds would belong here?',
];

const PLACES: Record<string, readonly string[]> = {
  garden: [
    'Which of these flowers do you like best?',
    'What would you plant in this garden?',
    'What do you think it smells like here?',
    'Which season suits a garden best?',
    'What would you pick to put on the table?',
    'What makes a good day outdoors for you?',
  ],
  home: [
    'What makes a room feel like home to you?',
    'Where in this room would you like to sit?',
    'What music would suit this room?',
    'What would you like to see from the window?',
    'What would you put on the table for visitors?',
    'What is a cosy evening like for you?',
  ],
  porch: [
    'What would you like to watch from this chair?',
    'What would you drink out here?',
    'Which weather do you like to sit out in?',
    'Who might come by and say hello?',
    'What would we hear on an evening like this?',
    'What would you like to talk about out here?',
  ],
};

const ITEMS: Record<Kind, readonly string[]> = {
  image: [
    'What does this picture remind you of?',
    'What do you like about this picture?',
    'What might be happening just outside the frame?',
    'What would you tell a friend about this picture?',
    'What title would you give it?',
  ],
  video: [
    'What would you like to watch together?',
    'How does this make you feel?',
    'What do you enjoy about films like this?',
    'What music would go with it?',
  ],
  belonging: [
    'What does this remind you of?',
    'How do you think it feels in your hand?',
    'What would you use it for today?',
    'What story could it tell?',
    'Where would it have its place in your home?',
  ],
};

/** Some of a list's entries; each round brings the next ones, and begins again after the last. */
export function choose(list: readonly string[], round: number, count: number): string[] {
  const some = Math.min(count, list.length);
  return Array.from({ length: some }, (_, at) => list[(round * some + at) % list.length] as string);
}

/** Questions about the place itself. */
export function aboutPlace(environment: string): readonly string[] {
  return [...(PLACES[environment] ?? []), ...ANYWHERE];
}

/** Questions about something in it. */
export function aboutItem(kind: Kind): readonly string[] {
  return ITEMS[kind] ?? ITEMS.belonging;
}
