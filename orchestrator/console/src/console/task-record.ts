// Tasks as the API shows them.

export interface ItemCounts {
  total: number;
  queued: number;
  running: number;
  success: number;
  failure: number;
  cancelled: number;
}

export interface TaskError {
  code: string;
  message: string;
  step?: number;
  screenshot?: string;
}

export interface Artifact {
  name: string;
  mediaType: string;
  bytes: number;
}

export interface Task {
  taskId: string;
  executionType: 'run' | 'extract' | 'fleet';
  executionTime: number;
  inputs: Record<string, unknown>;
  output: unknown[];
  outputBytes?: number;
  servicePasscode: string | null;
  timestamp: number;
  status: string;
  browserType: string;
  headless: boolean;
  keyId: string;
  artifacts?: Artifact[];
  name?: string;
  title?: string;
  page?: string;
  sessionId?: string;
  error?: TaskError;
  waiting?: TaskError;
  startedAt?: number;
  endedAt?: number;
  items?: ItemCounts;
  retryOf?: string;
  stepTimes?: number[];
}

export interface TaskItem {
  index: number;
  status: string;
  attempts: number;
  executionTime: number;
  inputs: Record<string, unknown>;
  output: unknown[];
  error?: TaskError;
  artifacts?: string[];
}

export const runs = ({ status }: { status: string }): boolean => status === 'queued' || status === 'running';
export const mayRetry = ({ status }: { status: string }): boolean => status === 'failure' || status === 'cancelled';

/** What people call a task. */
export const taskName = (task: Task): string => task.name ?? task.title ?? task.page ?? task.taskId;
