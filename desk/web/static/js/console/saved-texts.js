// What the console says about chats that are saved or printed, in both languages.

import { addTexts } from '../core/i18n.js';

addTexts({
	'en': {
		'saved.label': 'Keep this chat',
		'saved.text': 'Save as text',
		'saved.json': 'Save as JSON',
		'saved.print': 'Print',
		'saved.failed': 'The chat could not be read. Try again.',
		'saved.title': 'Chat with {name}, {time}',
		'saved.note': '{name} (note)',
		'saved.file': 'File: {name}',
		'saved.cut': 'Only the first {n} entries are here.',
	},
	'zh-CN': {
		'saved.label': '保存此对话',
		'saved.text': '保存为文本',
		'saved.json': '保存为 JSON',
		'saved.print': '打印',
		'saved.failed': '无法读取此对话，请重试。',
		'saved.title': '与 {name} 的对话，{time}',
		'saved.note': '{name}（备注）',
		'saved.file': '文件：{name}',
		'saved.cut': '这里只有前 {n} 条记录。',
	},
});
