// What is said about files, in both languages.

import { addTexts } from './i18n.js';

addTexts({
	'en': {
		'file.attach': 'Attach files',
		'file.cancel': 'Remove {name}',
		'file.open': 'Open {name}',
		'file.checking': 'Being checked…',
		'file.refused': 'Refused: this file is not safe.',
		'file.tooLarge': 'Too large. Choose a file of up to {size}.',
		'file.tooMany': 'At most {n} files fit into one message. Send these first.',
		'file.failed': 'Not uploaded.',
		'file.notTaken': 'This kind of file is not taken. Choose another one.',
	},
	'zh-CN': {
		'file.attach': '添加文件',
		'file.cancel': '移除 {name}',
		'file.open': '打开 {name}',
		'file.checking': '正在检查…',
		'file.refused': '已拒绝：此文件不安全。',
		'file.tooLarge': '文件过大，请选择 {size} 以内的文件。',
		'file.tooMany': '每条消息最多 {n} 个文件，请先发送这些。',
		'file.failed': '上传失败。',
		'file.notTaken': '不支持此类文件，请选择其他文件。',
	},
});
